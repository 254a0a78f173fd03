// Gemma 2, and Gemma 3's text model, which EmbeddingGemma has in both directions: norms before and after each branch,
// and windows in some layers.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/rotary_settings.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

/// In what the two differ.
struct Variant {
  std::int64_t kv_heads = 4, positions = 131072, vocabulary = 262208;  ///< where config.json has none
  std::int64_t pattern = 6;                                            ///< every so manieth layer attends to all
  bool normalizes_heads = true;                                        ///< of queries and keys
  bool has_local_rotary = true;  ///< layers with windows have rotary positions of their own
  float score_cap = 0, logit_cap = 0;
};

std::vector<Rotary> rotary_of(const checkpoint::ConfigReader& config, const Variant& variant, std::int64_t head_size,
                              std::int64_t positions) {
  constexpr float global_theta = 1000000, local_theta = 10000;
  if (!variant.has_local_rotary) {
    const float theta = config.positive({"rope_theta"}, local_theta);
    return {read_rotary(config, {.theta = theta, .head_size = head_size, .max_positions = positions})};
  }
  return {read_rotary(config, {.theta = config.positive({"rope_theta"}, global_theta),
                               .head_size = head_size,
                               .max_positions = positions,
                               .layer_type = "full_attention"}),
          read_rotary(config, {.theta = config.positive({"rope_local_base_freq"}, local_theta),
                               .head_size = head_size,
                               .max_positions = positions,
                               .layer_type = "sliding_attention",
                               .scales = false})};
}

class LayerReader {
 public:
  LayerReader(const checkpoint::ConfigReader& config, const TensorNames& names, const Transformer& transformer)
      : names_(names),
        transformer_(transformer),
        inner_(config.number({"intermediate_size"})),
        epsilon_(config.positive({"rms_norm_eps"}, 1e-6F)),
        bias_(config.flag({"attention_bias"}, false)),
        activation_(read_activation(config, "hidden_activation", "gelu_pytorch_tanh")) {}

  [[nodiscard]] Norm norm(const std::string& name, std::int64_t size) const {
    return names_.rms_norm(name, size, epsilon_, 1);  // weights are stored minus 1
  }

  [[nodiscard]] Layer read(std::int64_t index, bool normalizes_heads) const {
    const std::string at = fmt::format("layers.{}.", index);
    const std::int64_t hidden = transformer_.hidden_size, head_size = transformer_.head_size;
    const std::int64_t query_size = transformer_.heads * head_size, key_size = transformer_.kv_heads * head_size;
    Layer layer;
    layer.attention = {.query = names_.linear(at + "self_attn.q_proj", hidden, query_size, bias_),
                       .key = names_.linear(at + "self_attn.k_proj", hidden, key_size, bias_),
                       .value = names_.linear(at + "self_attn.v_proj", hidden, key_size, bias_),
                       .output = names_.linear(at + "self_attn.o_proj", query_size, hidden, bias_)};
    if (normalizes_heads) {
      layer.attention.query_norm = norm(at + "self_attn.q_norm", head_size);
      layer.attention.key_norm = norm(at + "self_attn.k_norm", head_size);
    }
    layer.attention_residual = {.input_norm = norm(at + "input_layernorm", hidden),
                                .branch_norm = norm(at + "post_attention_layernorm", hidden)};
    layer.feed_forward = {.gate = names_.linear(at + "mlp.gate_proj", hidden, inner_, false),
                          .up = names_.linear(at + "mlp.up_proj", hidden, inner_, false),
                          .down = names_.linear(at + "mlp.down_proj", inner_, hidden, false),
                          .activation = activation_};
    layer.feed_forward_residual = {.input_norm = norm(at + "pre_feedforward_layernorm", hidden),
                                   .branch_norm = norm(at + "post_feedforward_layernorm", hidden)};
    return layer;
  }

 private:
  const TensorNames& names_;
  const Transformer& transformer_;
  std::int64_t inner_;
  float epsilon_;
  bool bias_;
  checkpoint::Activation activation_;
};

void add_layers(const checkpoint::ConfigReader& config, const Variant& variant, const LayerReader& reader,
                Transformer& transformer) {
  const std::int64_t layers = config.number({"num_hidden_layers"});
  const bool is_causal = !config.flag({"use_bidirectional_attention"}, false);
  // sliding_window counts positions to the left with the query's own, and in both directions all that are attended.
  const std::int64_t counted = config.number({"sliding_window"}, 4096);
  const std::int64_t window = is_causal ? counted - 1 : counted / 2;
  const std::int64_t pattern = std::max<std::int64_t>(1, config.number({"sliding_window_pattern"}, variant.pattern));
  const std::vector<bool> sliding =
      sliding_layers(config, layers, [&](std::int64_t i) { return (i + 1) % pattern != 0; });
  const auto query_scalar = static_cast<double>(config.number({"query_pre_attn_scalar"}, 256));
  if (query_scalar == 0) config.refuse("query_pre_attn_scalar", 0, "a number above 0");
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool is_sliding = sliding[static_cast<std::size_t>(i)];
    Layer layer = reader.read(i, variant.normalizes_heads);
    layer.attention.rotary = is_sliding && variant.has_local_rotary ? 1 : 0;
    layer.attention.window = is_sliding ? std::optional(window) : std::nullopt;
    layer.attention.causal = is_causal;
    layer.attention.score_scale = static_cast<float>(1 / std::sqrt(query_scalar));
    layer.attention.soft_cap = variant.score_cap;
    transformer.layers.push_back(std::move(layer));
  }
}

Architecture describe(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                      const Variant& variant) {
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t kv_heads = config.number({"num_key_value_heads"}, variant.kv_heads);
  const std::int64_t hidden = config.number({"hidden_size"});
  const std::int64_t head_size = config.number({"head_dim"}, 256);
  require_encoder_sizes(layers, hidden, heads);
  require_head_sizes(heads, kv_heads, head_size);
  const TensorNames names(weights, {"", "model."}, "embed_tokens.weight");
  Architecture architecture;
  architecture.embeddings = {.words = names.full("embed_tokens.weight"),
                             .vocabulary = config.number({"vocab_size"}, variant.vocabulary),
                             .size = hidden,
                             .scale = static_cast<float>(std::sqrt(static_cast<double>(hidden)))};
  architecture.max_tokens = config.number({"max_position_embeddings"}, variant.positions);
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = kv_heads, .head_size = head_size};
  transformer.rotary = rotary_of(config, variant, head_size, architecture.max_tokens);
  const LayerReader reader(config, names, transformer);
  add_layers(config, variant, reader, transformer);
  transformer.final_norm = reader.norm("norm", hidden);
  architecture.labels = config.labels();
  architecture.logits.soft_cap = variant.logit_cap;
  architecture.scope = {.prefixes = {names.full("embed_tokens."), names.full("layers."), names.full("norm.")},
                        .layers = names.full("layers."),
                        .ignored_suffixes = {"inv_freq"}};
  return architecture;
}

float cap_in(const checkpoint::ConfigReader& config, const char* name) {
  return config.find({name}) == nullptr ? 0 : config.positive({name});
}

}  // namespace

Architecture describe_gemma2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  return describe(config, weights,
                  {.positions = 8192,
                   .vocabulary = 256000,
                   .pattern = 2,
                   .normalizes_heads = false,
                   .has_local_rotary = false,
                   .score_cap = cap_in(config, "attn_logit_softcapping"),
                   .logit_cap = cap_in(config, "final_logit_softcapping")});
}

Architecture describe_gemma3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  if (head_kind_of(config.architecture()) != HeadKind::vectors) {
    config.refuse("architectures", config.architecture(), "Gemma3TextModel, Gemma3ForCausalLM");
  }
  if (const auto* value = config.find({"attn_logit_softcapping"})) {
    config.refuse("attn_logit_softcapping", *value, "null");
  }
  return describe(config, weights, {.logit_cap = cap_in(config, "final_logit_softcapping")});
}

}  // namespace gpux::importer
