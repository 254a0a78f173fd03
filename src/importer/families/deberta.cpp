// DeBERTa v2 and v3: BERT with attention to positions relative to the query.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

bool has_part(const checkpoint::ConfigReader& config, const char* name, std::string_view part) {
  const checkpoint::ConfigReader::Json* value = config.find({name});
  if (value == nullptr) return false;
  if (value->is_string()) {
    // "p2c|c2p"
    const std::string parts = "|" + value->get<std::string>() + "|";
    return parts.find(fmt::format("|{}|", part)) != std::string::npos;
  }
  if (!value->is_array()) config.refuse(name, *value, "a text, or a list of texts");
  return std::any_of(value->begin(), value->end(), [&](const auto& each) { return each == part; });
}

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& outside, std::int64_t hidden) {
  return head_of(config, outside, hidden, [&](Head& head) {
    if (config.number({"pooler_hidden_size"}, hidden) != hidden) {
      config.refuse("pooler_hidden_size", config.number({"pooler_hidden_size"}), "the hidden size");
    }
    head.pooling = GraphPooling::cls;
    head.dense = outside.linear("pooler.dense", hidden, hidden);
    head.activation = read_activation(config, "pooler_hidden_act", "gelu");
    head.out = outside.linear("classifier", hidden, config.labels());
  });
}

Disentangled disentangled_of(const checkpoint::ConfigReader& config, const TensorNames& names, std::int64_t hidden,
                             std::int64_t positions, float epsilon) {
  const auto number_or_none = [&](const char* name) {
    const checkpoint::ConfigReader::Json* value = config.find({name});
    return value == nullptr || *value == checkpoint::ConfigReader::Json(-1) ? 0 : config.number({name});
  };
  Disentangled disentangled{.table = names.full("encoder.rel_embeddings.weight"),
                            .buckets = number_or_none("position_buckets"),
                            .max_positions = number_or_none("max_relative_positions"),
                            .content_to_position = has_part(config, "pos_att_type", "c2p"),
                            .position_to_content = has_part(config, "pos_att_type", "p2c")};
  if (disentangled.max_positions == 0) disentangled.max_positions = positions;
  disentangled.span = disentangled.buckets > 0 ? disentangled.buckets : disentangled.max_positions;
  if (has_part(config, "norm_rel_ebd", "layer_norm")) {
    disentangled.norm = names.layer_norm("encoder.LayerNorm", hidden, epsilon);
  }
  constexpr std::int64_t max_span = 1 << 16;
  if (disentangled.span < 2 || disentangled.span > max_span || disentangled.max_positions > max_span ||
      (disentangled.buckets > 0 && disentangled.max_positions <= disentangled.buckets / 2 + 1)) {
    config.refuse("position_buckets", disentangled.buckets, "less than twice max_relative_positions, up to 65536");
  }
  return disentangled;
}

}  // namespace

Architecture describe_deberta(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"}, 512);
  const std::int64_t types = config.number({"type_vocab_size"}, 0);
  const float epsilon = config.positive({"layer_norm_eps"}, 1e-7F);
  const checkpoint::Activation activation = read_activation(config, "hidden_act", "gelu");
  require_encoder_sizes(layers, hidden, heads);
  if (config.number({"conv_kernel_size"}, 0) != 0) {
    config.refuse("conv_kernel_size", config.number({"conv_kernel_size"}), "0, no convolution");
  }
  if (config.number({"embedding_size"}, hidden) != hidden) {
    config.refuse("embedding_size", config.number({"embedding_size"}), "the hidden size");
  }
  if (config.number({"attention_head_size"}, hidden / heads) != hidden / heads) {
    config.refuse("attention_head_size", config.number({"attention_head_size"}), "hidden_size / num_attention_heads");
  }
  const bool is_relative = config.flag({"relative_attention"}, false);

  const TensorNames names(weights, {"", "deberta."}, "embeddings.word_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  Architecture architecture;
  architecture.embeddings = {.words = names.full("embeddings.word_embeddings.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden,
                             .norm = names.layer_norm("embeddings.LayerNorm", hidden, epsilon)};
  if (types > 0) {
    architecture.embeddings.token_types = names.full("embeddings.token_type_embeddings.weight");
    architecture.embeddings.token_type_count = types;
    architecture.embeddings.token_type_input = types > 1;
  }
  if (config.flag({"position_biased_input"}, true)) {
    architecture.embeddings.positions = names.full("embeddings.position_embeddings.weight");
    architecture.embeddings.position_count = positions;
  }
  architecture.max_tokens = positions;
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = hidden / heads};
  const bool c2p = has_part(config, "pos_att_type", "c2p"), p2c = has_part(config, "pos_att_type", "p2c");
  if (is_relative) transformer.position_bias = disentangled_of(config, names, hidden, positions, epsilon);
  const bool shares_keys = config.flag({"share_att_key"}, false);
  // The scores are a sum of so many products.
  const auto products = static_cast<float>(1 + (c2p ? 1 : 0) + (p2c ? 1 : 0));
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("encoder.layer.{}.", i);
    const std::string self = at + "attention.self.";
    Layer layer;
    layer.attention = {.query = names.linear(self + "query_proj", hidden, hidden),
                       .key = names.linear(self + "key_proj", hidden, hidden),
                       .value = names.linear(self + "value_proj", hidden, hidden),
                       .output = names.linear(at + "attention.output.dense", hidden, hidden),
                       // NOLINTNEXTLINE(bugprone-integer-division): a whole number is meant
                       .score_scale = 1 / std::sqrt(static_cast<float>(hidden / heads) * products)};
    if (is_relative) {
      layer.attention.position_key = names.linear(self + (shares_keys ? "key_proj" : "pos_key_proj"), hidden, hidden);
      layer.attention.position_query =
          names.linear(self + (shares_keys ? "query_proj" : "pos_query_proj"), hidden, hidden);
    }
    layer.attention_residual = post_norm(names.layer_norm(at + "attention.output.LayerNorm", hidden, epsilon));
    layer.feed_forward = {.up = names.linear(at + "intermediate.dense", hidden, inner),
                          .down = names.linear(at + "output.dense", inner, hidden),
                          .activation = activation};
    layer.feed_forward_residual = post_norm(names.layer_norm(at + "output.LayerNorm", hidden, epsilon));
    transformer.layers.push_back(std::move(layer));
  }
  architecture.head = head_of(config, outside, hidden);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embeddings."), names.full("encoder.")},
                        .layers = names.full("encoder.layer."),
                        .ignored_suffixes = {"position_ids"}};
  return architecture;
}

}  // namespace gpux::importer
