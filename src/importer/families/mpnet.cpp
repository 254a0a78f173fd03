// BERT with T5's relative positions in addition to learned ones.
#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

// transformers' MPNetEmbeddings counts from there, whatever config.json says.
constexpr std::int64_t padding = 1;

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& outside, std::int64_t hidden) {
  return head_of(config, outside, hidden, [&](Head& head) {
    head.pooling = GraphPooling::cls;
    head.dense = outside.linear("classifier.dense", hidden, hidden);
    head.activation = checkpoint::Activation::tanh;
    head.out = outside.linear("classifier.out_proj", hidden, config.labels());
  });
}

}  // namespace

Architecture describe_mpnet(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  config.require_text("position_embedding_type", "absolute", "absolute");
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"});
  const float epsilon = config.positive({"layer_norm_eps"}, 1e-12F);
  const checkpoint::Activation activation = read_activation(config, "hidden_act", "gelu");
  require_encoder_sizes(layers, hidden, heads);

  const TensorNames names(weights, {"", "mpnet."}, "embeddings.word_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  Architecture architecture;
  architecture.embeddings = {.words = names.full("embeddings.word_embeddings.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden,
                             .positions = names.full("embeddings.position_embeddings.weight"),
                             .position_count = positions,
                             .position_start = PositionStart::after_padding,
                             .padding_token = padding,
                             .norm = names.layer_norm("embeddings.LayerNorm", hidden, epsilon)};
  architecture.max_tokens = positions - padding - 1;
  architecture.transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = hidden / heads};
  architecture.transformer.position_bias =
      RelativeBias{.table = names.full("encoder.relative_attention_bias.weight"),
                   .buckets = config.number({"relative_attention_num_buckets"}, 32),
                   .max_distance = 128,  // whatever the buckets
                   .max_tokens = architecture.max_tokens};
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("encoder.layer.{}.{}", i, name); };
    architecture.transformer.layers.push_back(
        {.attention = {.query = names.linear(at("attention.attn.q"), hidden, hidden),
                       .key = names.linear(at("attention.attn.k"), hidden, hidden),
                       .value = names.linear(at("attention.attn.v"), hidden, hidden),
                       .output = names.linear(at("attention.attn.o"), hidden, hidden),
                       .score_scale = default_score_scale(hidden / heads)},
         .attention_residual = post_norm(names.layer_norm(at("attention.LayerNorm"), hidden, epsilon)),
         .feed_forward = {.up = names.linear(at("intermediate.dense"), hidden, inner),
                          .down = names.linear(at("output.dense"), inner, hidden),
                          .activation = activation},
         .feed_forward_residual = post_norm(names.layer_norm(at("output.LayerNorm"), hidden, epsilon))});
  }
  architecture.head = head_of(config, outside, hidden);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embeddings."), names.full("encoder.")},
                        .layers = names.full("encoder.layer."),
                        .ignored_suffixes = {"position_ids"}};
  return architecture;
}

}  // namespace gpux::importer
