// GPT-2: learned positions, layer norms, weights stored as [in, out].
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

// transformers' Conv1D
Linear turned(Linear linear) {
  linear.is_transposed = true;
  return linear;
}

struct Sizes {
  std::int64_t hidden = 0, inner = 0, head_size = 0;
  float epsilon = 0;
  checkpoint::Activation activation = checkpoint::Activation::gelu_tanh;
};

Layer layer_of(const TensorNames& names, const std::string& at, const Sizes& sizes, float score_scale) {
  const std::int64_t hidden = sizes.hidden;
  const auto third = [&](std::int64_t index) {
    return turned(names.rows(at + "attn.c_attn", hidden, hidden, index * hidden, 3 * hidden));
  };
  Layer layer;
  layer.attention = {.query = third(0),
                     .key = third(1),
                     .value = third(2),
                     .output = turned(names.linear(at + "attn.c_proj", hidden, hidden)),
                     .causal = true,
                     .score_scale = score_scale};
  layer.attention_residual = pre_norm(names.layer_norm(at + "ln_1", hidden, sizes.epsilon));
  layer.feed_forward = {.up = turned(names.linear(at + "mlp.c_fc", hidden, sizes.inner)),
                        .down = turned(names.linear(at + "mlp.c_proj", sizes.inner, hidden)),
                        .activation = sizes.activation};
  layer.feed_forward_residual = pre_norm(names.layer_norm(at + "ln_2", hidden, sizes.epsilon));
  return layer;
}

}  // namespace

Architecture describe_gpt2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  const std::int64_t layers = config.number({"n_layer", "num_hidden_layers"});
  const std::int64_t heads = config.number({"n_head", "num_attention_heads"});
  const std::int64_t hidden = config.number({"n_embd", "hidden_size"});
  require_encoder_sizes(layers, hidden, heads);
  const Sizes sizes{.hidden = hidden,
                    .inner = config.number({"n_inner"}, 4 * hidden),
                    .head_size = hidden / heads,
                    .epsilon = config.positive({"layer_norm_epsilon"}, 1e-5F),
                    .activation = read_activation(config, "activation_function", "gelu_new")};
  const float scale = config.flag({"scale_attn_weights"}, true) ? default_score_scale(sizes.head_size) : 1;
  const bool scales_by_layer = config.flag({"scale_attn_by_inverse_layer_idx"}, false);
  const TensorNames names(weights, {"", "transformer."}, "wte.weight");
  Architecture architecture;
  architecture.max_tokens = config.number({"n_positions", "max_position_embeddings"});
  architecture.embeddings = {.words = names.full("wte.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden,
                             .positions = names.full("wpe.weight"),
                             .position_count = architecture.max_tokens};
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = sizes.head_size};
  for (std::int64_t i = 0; i < layers; ++i) {
    const float of_layer = scales_by_layer ? scale / static_cast<float>(i + 1) : scale;
    transformer.layers.push_back(layer_of(names, fmt::format("h.{}.", i), sizes, of_layer));
  }
  transformer.final_norm = names.layer_norm("ln_f", hidden, sizes.epsilon);
  architecture.scope = {.prefixes = {names.full("wte."), names.full("wpe."), names.full("h."), names.full("ln_f.")},
                        .layers = names.full("h."),
                        // The causal mask.
                        .ignored_suffixes = {".attn.bias", ".attn.masked_bias"}};
  return architecture;
}

}  // namespace gpux::importer
