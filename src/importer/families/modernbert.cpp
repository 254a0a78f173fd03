// ModernBERT: pre-norm, rotary positions, and windows in all but every third layer.
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

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& outside, std::int64_t hidden, float epsilon) {
  Head head{.kind = head_kind_of(config.architecture())};
  if (head.kind == HeadKind::vectors) return head;
  if (head.kind == HeadKind::classification) {
    const std::string pooling = config.text({"classifier_pooling"}, "cls");
    if (pooling != "cls" && pooling != "mean") config.refuse("classifier_pooling", pooling, "cls, mean");
    head.pooling = pooling == "cls" ? GraphPooling::cls : GraphPooling::mean;
  }
  head.dense = outside.linear("head.dense", hidden, hidden, config.flag({"classifier_bias"}, false));
  head.activation = read_activation(config, "classifier_activation", "gelu");
  head.norm = outside.layer_norm("head.norm", hidden, epsilon, config.flag({"norm_bias"}, false));
  head.out = outside.linear("classifier", hidden, config.labels());
  return head;
}

}  // namespace

Architecture describe_modernbert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"}, 8192);
  const float epsilon = config.positive({"norm_eps"}, 1e-5F);
  const bool norm_bias = config.flag({"norm_bias"}, false);
  const bool attention_bias = config.flag({"attention_bias"}, false), inner_bias = config.flag({"mlp_bias"}, false);
  const checkpoint::Activation activation = read_activation(config, "hidden_activation", "gelu");
  require_encoder_sizes(layers, hidden, heads);

  const TensorNames names(weights, {"", "model."}, "embeddings.tok_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  const auto norm = [&](const std::string& name) { return names.layer_norm(name, hidden, epsilon, norm_bias); };
  Architecture architecture;
  architecture.embeddings = {.words = names.full("embeddings.tok_embeddings.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden,
                             .norm = norm("embeddings.norm")};
  architecture.max_tokens = positions;
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = hidden / heads};
  constexpr float global_theta = 160000, local_theta = 10000;
  transformer.rotary = {read_rotary(config, {.theta = config.positive({"global_rope_theta"}, global_theta),
                                             .head_size = transformer.head_size,
                                             .max_positions = positions,
                                             .layer_type = "full_attention"}),
                        read_rotary(config, {.theta = config.positive({"local_rope_theta"}, local_theta),
                                             .head_size = transformer.head_size,
                                             .max_positions = positions,
                                             .layer_type = "sliding_attention"})};
  const std::int64_t window = config.number({"local_attention"}, 128) / 2;
  const std::vector<bool> sliding = sliding_layers(config, layers, [&](std::int64_t i) {
    return i % std::max<std::int64_t>(1, config.number({"global_attn_every_n_layers"}, 3)) != 0;
  });
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("layers.{}.{}", i, name); };
    const bool is_sliding = sliding[static_cast<std::size_t>(i)];
    const auto fused = [&](std::int64_t part) {
      return names.rows(at("attn.Wqkv"), hidden, hidden, part * hidden, 3 * hidden, attention_bias);
    };
    Layer layer;
    layer.attention = {.query = fused(0),
                       .key = fused(1),
                       .value = fused(2),
                       .output = names.linear(at("attn.Wo"), hidden, hidden, attention_bias),
                       .rotary = is_sliding ? 1 : 0,
                       .window = is_sliding ? std::optional(window) : std::nullopt,
                       .score_scale = default_score_scale(transformer.head_size)};
    if (i > 0) layer.attention_residual = pre_norm(norm(at("attn_norm")));  // the embeddings' norm serves the first
    layer.feed_forward = {.gate = names.rows(at("mlp.Wi"), hidden, inner, 0, 2 * inner, inner_bias),
                          .up = names.rows(at("mlp.Wi"), hidden, inner, inner, 2 * inner, inner_bias),
                          .down = names.linear(at("mlp.Wo"), inner, hidden, inner_bias),
                          .activation = activation};
    layer.feed_forward_residual = pre_norm(norm(at("mlp_norm")));
    transformer.layers.push_back(std::move(layer));
  }
  transformer.final_norm = norm("final_norm");
  architecture.head = head_of(config, outside, hidden, epsilon);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embeddings."), names.full("layers."), names.full("final_norm.")},
                        .layers = names.full("layers."),
                        .ignored_suffixes = {"inv_freq"}};
  return architecture;
}

}  // namespace gpux::importer
