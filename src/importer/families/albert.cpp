// ALBERT: BERT with projected embeddings, and layers that share their weights.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& encoder, const TensorNames& outside,
             std::int64_t hidden) {
  return head_of(config, outside, hidden, [&](Head& head) {
    head.pooling = GraphPooling::cls;
    head.dense = encoder.linear("pooler", hidden, hidden);
    head.activation = checkpoint::Activation::tanh;
    head.out = outside.linear("classifier", hidden, config.labels());
  });
}

}  // namespace

Architecture describe_albert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  config.require_text("position_embedding_type", "absolute", "absolute");
  const std::int64_t layers = config.number({"num_hidden_layers"}, 12), heads = config.number({"num_attention_heads"});
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t size = config.number({"embedding_size"}, 128);
  const std::int64_t positions = config.number({"max_position_embeddings"}, 512);
  const std::int64_t types = config.number({"type_vocab_size"}, 2);
  const std::int64_t groups = config.number({"num_hidden_groups"}, 1);
  const std::int64_t layers_of_group = config.number({"inner_group_num"}, 1);
  const float epsilon = config.positive({"layer_norm_eps"}, 1e-12F);
  const checkpoint::Activation activation = read_activation(config, "hidden_act", "gelu_new");
  require_encoder_sizes(layers, hidden, heads);
  if (groups == 0 || groups > layers) config.refuse("num_hidden_groups", groups, "1 to num_hidden_layers");
  if (layers_of_group != 1) config.refuse("inner_group_num", layers_of_group, "1");

  const TensorNames names(weights, {"", "albert."}, "embeddings.word_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  Architecture architecture;
  architecture.embeddings = {.words = names.full("embeddings.word_embeddings.weight"),
                             .vocabulary = config.number({"vocab_size"}, 30000),
                             .size = size,
                             .token_types = names.full("embeddings.token_type_embeddings.weight"),
                             .token_type_count = types,
                             .token_type_input = types > 1,
                             .positions = names.full("embeddings.position_embeddings.weight"),
                             .position_count = positions,
                             .norm = names.layer_norm("embeddings.LayerNorm", size, epsilon),
                             .projection = names.linear("encoder.embedding_hidden_mapping_in", size, hidden)};
  architecture.max_tokens = positions;
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = hidden / heads};
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("encoder.albert_layer_groups.{}.albert_layers.0.", i * groups / layers);
    Layer layer;
    layer.attention = {.query = names.linear(at + "attention.query", hidden, hidden),
                       .key = names.linear(at + "attention.key", hidden, hidden),
                       .value = names.linear(at + "attention.value", hidden, hidden),
                       .output = names.linear(at + "attention.dense", hidden, hidden),
                       .score_scale = default_score_scale(hidden / heads)};
    layer.attention_residual = post_norm(names.layer_norm(at + "attention.LayerNorm", hidden, epsilon));
    layer.feed_forward = {.up = names.linear(at + "ffn", hidden, inner),
                          .down = names.linear(at + "ffn_output", inner, hidden),
                          .activation = activation};
    layer.feed_forward_residual = post_norm(names.layer_norm(at + "full_layer_layer_norm", hidden, epsilon));
    transformer.layers.push_back(std::move(layer));
  }
  architecture.head = head_of(config, names, outside, hidden);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embeddings."), names.full("encoder.")},
                        .layers = names.full("encoder.albert_layer_groups."),
                        .ignored_suffixes = {"position_ids"}};
  return architecture;
}

}  // namespace gpux::importer
