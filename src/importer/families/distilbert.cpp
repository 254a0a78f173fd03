#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

constexpr float epsilon = 1e-12F;  // fixed in transformers, whatever config.json says

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& outside, std::int64_t hidden) {
  return head_of(config, outside, hidden, [&](Head& head) {
    head.pooling = GraphPooling::cls;
    head.dense = outside.linear("pre_classifier", hidden, hidden);
    head.activation = checkpoint::Activation::relu;
    head.out = outside.linear("classifier", hidden, config.labels());
  });
}

}  // namespace

Architecture describe_distilbert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  config.require_text("position_embedding_type", "absolute", "absolute");
  const std::int64_t layers = config.number({"num_hidden_layers", "n_layers"});
  const std::int64_t heads = config.number({"num_attention_heads", "n_heads"});
  const std::int64_t hidden = config.number({"hidden_size", "dim"});
  const std::int64_t inner = config.number({"hidden_dim", "intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"});
  const checkpoint::Activation activation = read_activation(config, "activation", "gelu");
  require_encoder_sizes(layers, hidden, heads);

  const TensorNames names(weights, {"", "distilbert."}, "embeddings.word_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  Architecture architecture;
  architecture.embeddings = {.words = names.full("embeddings.word_embeddings.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden,
                             .positions = names.full("embeddings.position_embeddings.weight"),
                             .position_count = positions,
                             .norm = names.layer_norm("embeddings.LayerNorm", hidden, epsilon)};
  architecture.max_tokens = positions;
  architecture.transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = hidden / heads};
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("transformer.layer.{}.{}", i, name); };
    architecture.transformer.layers.push_back(
        {.attention = {.query = names.linear(at("attention.q_lin"), hidden, hidden),
                       .key = names.linear(at("attention.k_lin"), hidden, hidden),
                       .value = names.linear(at("attention.v_lin"), hidden, hidden),
                       .output = names.linear(at("attention.out_lin"), hidden, hidden),
                       .score_scale = default_score_scale(hidden / heads)},
         .attention_residual = post_norm(names.layer_norm(at("sa_layer_norm"), hidden, epsilon)),
         .feed_forward = {.up = names.linear(at("ffn.lin1"), hidden, inner),
                          .down = names.linear(at("ffn.lin2"), inner, hidden),
                          .activation = activation},
         .feed_forward_residual = post_norm(names.layer_norm(at("output_layer_norm"), hidden, epsilon))});
  }
  architecture.head = head_of(config, outside, hidden);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embeddings."), names.full("transformer.")},
                        .layers = names.full("transformer.layer."),
                        .ignored_suffixes = {"position_ids"}};
  return architecture;
}

}  // namespace gpux::importer
