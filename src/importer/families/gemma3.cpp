// Gemma 3's text model, which EmbeddingGemma has in both directions: norms before and after each branch, two rotary
// tables, windows in all but every sixth layer.
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/rotary_settings.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {

Architecture describe_gemma3(const ConfigReader& config, const Weights& weights) {
  refuse_other_computations(config);
  if (head_kind_of(config.architecture()) != HeadKind::vectors) {
    config.refuse("architectures", config.architecture(), "Gemma3TextModel, Gemma3ForCausalLM");
  }
  for (const char* name : {"attn_logit_softcapping"}) {
    if (const auto* value = config.find({name})) config.refuse(name, *value, "null");
  }
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t kv_heads = config.number({"num_key_value_heads"}, 4);
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"}, 131072);
  const std::int64_t head_size = config.number({"head_dim"}, 256);
  const float epsilon = config.positive({"rms_norm_eps"}, 1e-6F);
  const bool bias = config.flag({"attention_bias"}, false);
  const Activation activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  require_encoder_sizes(layers, hidden, heads);
  require_head_sizes(heads, kv_heads, head_size);

  const TensorNames names(weights, {"", "model."}, "embed_tokens.weight");
  const auto norm = [&](const std::string& name, std::int64_t size) {
    return names.rms_norm(name, size, epsilon, 1);  // weights are stored minus 1
  };
  Architecture architecture;
  architecture.embeddings = {.words = names.full("embed_tokens.weight"),
                             .vocabulary = config.number({"vocab_size"}, 262208),
                             .size = hidden,
                             .scale = static_cast<float>(std::sqrt(static_cast<double>(hidden)))};
  architecture.max_tokens = positions;
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = kv_heads, .head_size = head_size};
  constexpr float global_theta = 1000000, local_theta = 10000;
  transformer.rotary = {read_rotary(config, {.theta = config.positive({"rope_theta"}, global_theta),
                                             .head_size = head_size,
                                             .max_positions = positions,
                                             .layer_type = "full_attention"}),
                        read_rotary(config, {.theta = config.positive({"rope_local_base_freq"}, local_theta),
                                             .head_size = head_size,
                                             .max_positions = positions,
                                             .layer_type = "sliding_attention",
                                             .scales = false})};
  const bool is_causal = !config.flag({"use_bidirectional_attention"}, false);
  // sliding_window counts positions to the left with the query's own, and in both directions all that are attended.
  const std::int64_t counted = config.number({"sliding_window"}, 4096);
  const std::int64_t window = is_causal ? counted - 1 : counted / 2;
  const std::int64_t pattern = std::max<std::int64_t>(1, config.number({"sliding_window_pattern"}, 6));
  const std::vector<bool> sliding =
      sliding_layers(config, layers, [&](std::int64_t i) { return (i + 1) % pattern != 0; });
  const auto query_scalar = static_cast<double>(config.number({"query_pre_attn_scalar"}, 256));
  if (query_scalar == 0) config.refuse("query_pre_attn_scalar", 0, "a number above 0");
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("layers.{}.{}", i, name); };
    const bool is_sliding = sliding[static_cast<std::size_t>(i)];
    Layer layer;
    layer.attention = {.query = names.linear(at("self_attn.q_proj"), hidden, heads * head_size, bias),
                       .key = names.linear(at("self_attn.k_proj"), hidden, kv_heads * head_size, bias),
                       .value = names.linear(at("self_attn.v_proj"), hidden, kv_heads * head_size, bias),
                       .output = names.linear(at("self_attn.o_proj"), heads * head_size, hidden, bias),
                       .query_norm = norm(at("self_attn.q_norm"), head_size),
                       .key_norm = norm(at("self_attn.k_norm"), head_size),
                       .rotary = is_sliding ? 1 : 0,
                       .window = is_sliding ? std::optional(window) : std::nullopt,
                       .causal = is_causal,
                       .score_scale = static_cast<float>(1 / std::sqrt(query_scalar))};
    layer.attention_residual = {.input_norm = norm(at("input_layernorm"), hidden),
                                .branch_norm = norm(at("post_attention_layernorm"), hidden)};
    layer.feed_forward = {.gate = names.linear(at("mlp.gate_proj"), hidden, inner, false),
                          .up = names.linear(at("mlp.up_proj"), hidden, inner, false),
                          .down = names.linear(at("mlp.down_proj"), inner, hidden, false),
                          .activation = activation};
    layer.feed_forward_residual = {.input_norm = norm(at("pre_feedforward_layernorm"), hidden),
                                   .branch_norm = norm(at("post_feedforward_layernorm"), hidden)};
    transformer.layers.push_back(std::move(layer));
  }
  transformer.final_norm = norm("norm", hidden);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embed_tokens."), names.full("layers."), names.full("norm.")},
                        .layers = names.full("layers."),
                        .ignored_suffixes = {"inv_freq"}};
  return architecture;
}

}  // namespace gpux::importer
