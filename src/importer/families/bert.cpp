// BERT, and RoBERTa, XLM-RoBERTa and CamemBERT, which count positions from the padding token's id and have another
// classifier.
#include <string>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

Head head_of(const ConfigReader& config, const TensorNames& encoder, const TensorNames& outside, bool is_roberta,
             std::int64_t hidden_size) {
  Head head{.kind = head_kind_of(config.architecture())};
  switch (head.kind) {
    case HeadKind::classification:
      head.pooling = GraphPooling::cls;
      head.dense = is_roberta ? outside.linear("classifier.dense", hidden_size, hidden_size)
                              : encoder.linear("pooler.dense", hidden_size, hidden_size);
      head.activation = Activation::tanh;
      head.out = outside.linear(is_roberta ? "classifier.out_proj" : "classifier", hidden_size, config.labels());
      break;
    case HeadKind::token_classification:
      head.out = outside.linear("classifier", hidden_size, config.labels());
      break;
    case HeadKind::question_answering:
      head.out = outside.linear("qa_outputs", hidden_size, 2);
      break;
    case HeadKind::vectors:
      break;
  }
  return head;
}

Architecture describe(const ConfigReader& config, const Safetensors& weights, bool is_roberta) {
  refuse_other_computations(config);
  config.require_text("position_embedding_type", "absolute", "absolute");
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"});
  const std::int64_t padding = config.number({"pad_token_id"}, is_roberta ? 1 : 0);
  const float epsilon = config.positive({"layer_norm_eps"}, 1e-12F);
  const Activation activation = read_activation(config, "hidden_act", "gelu");
  require_encoder_sizes(layers, hidden, heads);

  const TensorNames names(weights, {"", is_roberta ? "roberta." : "bert."}, "embeddings.word_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  Architecture architecture;
  const std::int64_t types = config.number({"type_vocab_size"}, is_roberta ? 1 : 2);
  architecture.embeddings = {.words = names.full("embeddings.word_embeddings.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden,
                             .token_types = names.full("embeddings.token_type_embeddings.weight"),
                             .token_type_count = types,
                             .token_type_input = types > 1,
                             .positions = names.full("embeddings.position_embeddings.weight"),
                             .position_count = positions,
                             .position_start = is_roberta ? PositionStart::after_padding : PositionStart::zero,
                             .padding_token = padding,
                             .norm = names.layer_norm("embeddings.LayerNorm", hidden, epsilon)};
  architecture.max_tokens = is_roberta ? positions - padding - 1 : positions;
  architecture.transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = hidden / heads};
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("encoder.layer.{}.{}", i, name); };
    architecture.transformer.layers.push_back(
        {.attention = {.query = names.linear(at("attention.self.query"), hidden, hidden),
                       .key = names.linear(at("attention.self.key"), hidden, hidden),
                       .value = names.linear(at("attention.self.value"), hidden, hidden),
                       .output = names.linear(at("attention.output.dense"), hidden, hidden),
                       .score_scale = default_score_scale(hidden / heads)},
         .attention_residual = post_norm(names.layer_norm(at("attention.output.LayerNorm"), hidden, epsilon)),
         .feed_forward = {.up = names.linear(at("intermediate.dense"), hidden, inner),
                          .down = names.linear(at("output.dense"), inner, hidden),
                          .activation = activation},
         .feed_forward_residual = post_norm(names.layer_norm(at("output.LayerNorm"), hidden, epsilon))});
  }
  architecture.head = head_of(config, names, outside, is_roberta, hidden);
  architecture.labels = config.labels();
  architecture.scope = {.prefixes = {names.full("embeddings."), names.full("encoder.")},
                        .layers = names.full("encoder.layer."),
                        .ignored_suffixes = {"position_ids", "token_type_ids"}};
  return architecture;
}

}  // namespace

Architecture describe_bert(const ConfigReader& config, const Safetensors& weights) {
  return describe(config, weights, false);
}

Architecture describe_roberta(const ConfigReader& config, const Safetensors& weights) {
  return describe(config, weights, true);
}

}  // namespace gpux::importer
