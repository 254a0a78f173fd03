// Decoders of Llama's layout as encoders: Llama, Mistral, Qwen2, Qwen3, and EuroBERT, which attends in both directions.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/rotary_settings.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

/// In what the families of this layout differ.
struct Variant {
  bool query_key_value_bias = false, output_bias = false, feed_forward_bias = false;
  bool normalizes_heads = false;  ///< of queries and keys
  bool is_causal = true;
  bool has_windows = false;  ///< sliding_window counts
};

// The greatest distance of a key in the layers with windows; sliding_window counts the query's own position.
std::optional<std::int64_t> window_of(const ConfigReader& config, const Variant& variant) {
  if (!variant.has_windows || !config.flag({"use_sliding_window"}, true)) return std::nullopt;
  const std::int64_t window = config.number({"sliding_window"}, 0);
  return window > 0 ? std::optional(window - 1) : std::nullopt;
}

Head head_of(const ConfigReader& config, const TensorNames& outside, std::int64_t hidden) {
  Head head{.kind = head_kind_of(config.architecture())};
  if (head.kind == HeadKind::vectors) return head;
  if (head.kind == HeadKind::question_answering) {
    config.refuse("architectures", config.architecture(), "ForSequenceClassification, ForTokenClassification");
  }
  const bool is_text = head.kind == HeadKind::classification;
  head.pooling = is_text ? GraphPooling::last_token : GraphPooling::none;
  head.out = outside.linear("score", hidden, config.labels(), !is_text);
  return head;
}

Architecture describe(const ConfigReader& config, const Weights& weights, const Variant& variant) {
  refuse_other_computations(config);
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t kv_heads = config.number({"num_key_value_heads"}, heads);
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"});
  const float epsilon = config.positive({"rms_norm_eps"}, 1e-6F);
  const Activation activation = read_activation(config, "hidden_act", "silu");
  require_encoder_sizes(layers, hidden, heads);
  const std::int64_t head_size = config.number({"head_dim"}, hidden / heads);
  require_head_sizes(heads, kv_heads, head_size);

  const TensorNames names(weights, {"", "model."}, "embed_tokens.weight");
  const TensorNames outside(weights, {""}, "");
  const auto norm = [&](const std::string& name) { return names.rms_norm(name, hidden, epsilon); };
  Architecture architecture;
  architecture.embeddings = {
      .words = names.full("embed_tokens.weight"), .vocabulary = config.number({"vocab_size"}), .size = hidden};
  architecture.max_tokens = positions;
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = kv_heads, .head_size = head_size};
  constexpr float default_theta = 10000;
  transformer.rotary = {read_rotary(
      config,
      {.theta = config.positive({"rope_theta"}, default_theta), .head_size = head_size, .max_positions = positions})};
  const std::optional<std::int64_t> window = window_of(config, variant);
  const std::vector<bool> sliding = sliding_layers(
      config, layers, [&](std::int64_t i) { return window && i >= config.number({"max_window_layers"}, 0); });
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("layers.{}.{}", i, name); };
    const bool bias = variant.query_key_value_bias;
    Layer layer;
    layer.attention = {.query = names.linear(at("self_attn.q_proj"), hidden, heads * head_size, bias),
                       .key = names.linear(at("self_attn.k_proj"), hidden, kv_heads * head_size, bias),
                       .value = names.linear(at("self_attn.v_proj"), hidden, kv_heads * head_size, bias),
                       .output = names.linear(at("self_attn.o_proj"), heads * head_size, hidden, variant.output_bias),
                       .rotary = 0,
                       .window = sliding[static_cast<std::size_t>(i)] ? window : std::nullopt,
                       .causal = variant.is_causal,
                       .score_scale = default_score_scale(head_size)};
    if (variant.normalizes_heads) {
      layer.attention.query_norm = names.rms_norm(at("self_attn.q_norm"), head_size, epsilon);
      layer.attention.key_norm = names.rms_norm(at("self_attn.k_norm"), head_size, epsilon);
    }
    layer.attention_residual = pre_norm(norm(at("input_layernorm")));
    layer.feed_forward = {.gate = names.linear(at("mlp.gate_proj"), hidden, inner, variant.feed_forward_bias),
                          .up = names.linear(at("mlp.up_proj"), hidden, inner, variant.feed_forward_bias),
                          .down = names.linear(at("mlp.down_proj"), inner, hidden, variant.feed_forward_bias),
                          .activation = activation};
    layer.feed_forward_residual = pre_norm(norm(at("post_attention_layernorm")));
    transformer.layers.push_back(std::move(layer));
  }
  transformer.final_norm = norm("norm");
  architecture.head = head_of(config, outside, hidden);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embed_tokens."), names.full("layers."), names.full("norm.")},
                        .layers = names.full("layers."),
                        .ignored_suffixes = {"inv_freq"}};
  return architecture;
}

// The repositories of GTE-Qwen2 bring code in which is_causal says whether tokens attend to later ones.
bool reads_causal(const ConfigReader& config) {
  if (config.find({"auto_map"}) != nullptr && config.find({"is_causal"}) == nullptr) {
    config.refuse("is_causal", nullptr, "true, false, where auto_map names code");
  }
  return config.flag({"is_causal"}, true);
}

}  // namespace

Architecture describe_llama(const ConfigReader& config, const Weights& weights) {
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .feed_forward_bias = config.flag({"mlp_bias"}, false),
                   .is_causal = config.flag({"is_causal"}, true)});
}

Architecture describe_mistral(const ConfigReader& config, const Weights& weights) {
  return describe(config, weights, {.is_causal = config.flag({"is_causal"}, true), .has_windows = true});
}

Architecture describe_qwen2(const ConfigReader& config, const Weights& weights) {
  return describe(config, weights,
                  {.query_key_value_bias = true,
                   .is_causal = reads_causal(config),
                   .has_windows = config.flag({"use_sliding_window"}, false)});
}

Architecture describe_qwen3(const ConfigReader& config, const Weights& weights) {
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .normalizes_heads = true,
                   .is_causal = config.flag({"is_causal"}, true),
                   .has_windows = config.flag({"use_sliding_window"}, false)});
}

Architecture describe_eurobert(const ConfigReader& config, const Weights& weights) {
  if (head_kind_of(config.architecture()) != HeadKind::vectors) {
    config.refuse("architectures", config.architecture(), "EuroBertModel, EuroBertForMaskedLM");
  }
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .feed_forward_bias = config.flag({"mlp_bias"}, false),
                   .is_causal = false});
}

}  // namespace gpux::importer
