// BERT, and what has its layers: RoBERTa, XLM-RoBERTa and CamemBERT, which count positions from the padding token's id;
// ELECTRA, which may project smaller embeddings; Jina's BERT, with ALiBi and a gated feed-forward.
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

enum class Kind : std::uint8_t { bert, roberta, electra, jina };

constexpr std::string_view prefix_of(Kind kind) {
  if (kind == Kind::roberta) return "roberta.";
  return kind == Kind::electra ? "electra." : "bert.";
}

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& encoder, const TensorNames& outside, Kind kind,
             std::int64_t hidden) {
  return head_of(config, outside, hidden, [&](Head& head) {
    const bool has_pooler = kind == Kind::bert || kind == Kind::jina;
    head.pooling = GraphPooling::cls;
    head.dense = has_pooler ? encoder.linear("pooler.dense", hidden, hidden)
                            : outside.linear("classifier.dense", hidden, hidden);
    head.activation = kind == Kind::electra ? checkpoint::Activation::gelu : checkpoint::Activation::tanh;
    head.out = outside.linear(has_pooler ? "classifier" : "classifier.out_proj", hidden, config.labels());
  });
}

// Of the paper's slopes for as many heads as the next lower power of two, and every second one of twice as many.
std::vector<float> alibi_slopes(std::int64_t heads) {
  const auto of_power = [](std::int64_t count) {
    std::vector<float> slopes;
    const double exponent = std::exp2(-(std::log2(static_cast<double>(count)) - 3));
    for (std::int64_t i = 1; i <= count; ++i) {
      slopes.push_back(static_cast<float>(std::pow(std::exp2(-exponent), static_cast<double>(i))));
    }
    return slopes;
  };
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<float> slopes = of_power(power);
  const std::vector<float> more = of_power(2 * power);
  for (std::size_t i = 0; static_cast<std::int64_t>(slopes.size()) < heads; i += 2) slopes.push_back(more[i]);
  return slopes;
}

void describe_feed_forward(Layer& layer, const checkpoint::ConfigReader& config, const TensorNames& names,
                           const std::string& at, Kind kind, std::int64_t hidden, std::int64_t inner, float epsilon) {
  if (kind != Kind::jina) {
    layer.feed_forward = {.up = names.linear(at + "intermediate.dense", hidden, inner),
                          .down = names.linear(at + "output.dense", inner, hidden),
                          .activation = read_activation(config, "hidden_act", "gelu")};
    layer.feed_forward_residual = post_norm(names.layer_norm(at + "output.LayerNorm", hidden, epsilon));
    return;
  }
  const std::string type = config.text({"feed_forward_type"}, "original");
  if (type != "geglu" && type != "reglu") config.refuse("feed_forward_type", type, "geglu, reglu");
  layer.feed_forward = {.gate = names.rows(at + "mlp.gated_layers", hidden, inner, 0, 2 * inner, false),
                        .up = names.rows(at + "mlp.gated_layers", hidden, inner, inner, 2 * inner, false),
                        .down = names.linear(at + "mlp.wo", inner, hidden),
                        .activation = type == "geglu" ? checkpoint::Activation::gelu : checkpoint::Activation::relu};
  layer.feed_forward_residual = post_norm(names.layer_norm(at + "mlp.layernorm", hidden, epsilon));
}

Architecture describe(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights, Kind kind) {
  refuse_other_computations(config);
  const char* const position_type = kind == Kind::jina ? "alibi" : "absolute";
  config.require_text("position_embedding_type", "absolute", position_type);
  const bool is_roberta = kind == Kind::roberta;
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t hidden = config.number({"hidden_size"}), inner = config.number({"intermediate_size"});
  const std::int64_t positions = config.number({"max_position_embeddings"});
  const std::int64_t padding = config.number({"pad_token_id"}, is_roberta ? 1 : 0);
  const std::int64_t size = kind == Kind::electra ? config.number({"embedding_size"}, 128) : hidden;
  const float epsilon = config.positive({"layer_norm_eps"}, 1e-12F);
  require_encoder_sizes(layers, hidden, heads);

  const TensorNames names(weights, {"", prefix_of(kind)}, "embeddings.word_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  Architecture architecture;
  const std::int64_t types = config.number({"type_vocab_size"}, is_roberta ? 1 : 2);
  architecture.embeddings = {.words = names.full("embeddings.word_embeddings.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = size,
                             .token_types = names.full("embeddings.token_type_embeddings.weight"),
                             .token_type_count = types,
                             .token_type_input = types > 1,
                             .padding_token = padding,
                             .norm = names.layer_norm("embeddings.LayerNorm", size, epsilon)};
  Embeddings& embeddings = architecture.embeddings;
  if (kind != Kind::jina) {
    embeddings.positions = names.full("embeddings.position_embeddings.weight");
    embeddings.position_count = positions;
    embeddings.position_start = is_roberta ? PositionStart::after_padding : PositionStart::zero;
  }
  if (size != hidden) embeddings.projection = names.linear("embeddings_project", size, hidden);
  architecture.max_tokens = is_roberta ? positions - padding - 1 : positions;
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = hidden / heads};
  if (kind == Kind::jina) transformer.position_bias = Alibi{.slopes = alibi_slopes(heads)};
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("encoder.layer.{}.", i);
    Layer layer;
    layer.attention = {.query = names.linear(at + "attention.self.query", hidden, hidden),
                       .key = names.linear(at + "attention.self.key", hidden, hidden),
                       .value = names.linear(at + "attention.self.value", hidden, hidden),
                       .output = names.linear(at + "attention.output.dense", hidden, hidden),
                       .score_scale = default_score_scale(hidden / heads)};
    layer.attention_residual = post_norm(names.layer_norm(at + "attention.output.LayerNorm", hidden, epsilon));
    describe_feed_forward(layer, config, names, at, kind, hidden, inner, epsilon);
    transformer.layers.push_back(std::move(layer));
  }
  architecture.head = head_of(config, names, outside, kind, hidden);
  architecture.labels = config.labels();
  architecture.scope = {
      .prefixes = {names.full("embeddings."), names.full("embeddings_project."), names.full("encoder.")},
      .layers = names.full("encoder.layer."),
      .ignored_suffixes = {"position_ids", "token_type_ids"}};
  return architecture;
}

}  // namespace

Architecture describe_bert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, Kind::bert);
}

Architecture describe_roberta(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, Kind::roberta);
}

Architecture describe_electra(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, Kind::electra);
}

Architecture describe_jina_bert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, Kind::jina);
}

bool is_jina_bert(const checkpoint::ConfigReader& config) {
  return config.text({"position_embedding_type"}, "absolute") == "alibi";
}

}  // namespace gpux::importer
