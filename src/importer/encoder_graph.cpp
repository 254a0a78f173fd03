#include "importer/encoder_graph.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "gpux/error.h"
#include "onnx/graph_writer.h"
#include "onnx/text.h"

namespace gpux::importer {
namespace {

using nlohmann::json;

constexpr std::int64_t opset = 20;  // the first with Gelu
constexpr std::int64_t ir_version = 9;

/// What the families call their tensors. "{}" is the layer's number.
struct Names {
  std::string_view prefix;  // of files that hold a model with a head
  std::string_view words, positions, token_types, embedding_norm;
  std::string_view query, key, value, attention_out, attention_norm;
  std::string_view inner, outer, outer_norm;
};

constexpr Names bert_names{"bert.",
                           "embeddings.word_embeddings",
                           "embeddings.position_embeddings",
                           "embeddings.token_type_embeddings",
                           "embeddings.LayerNorm",
                           "encoder.layer.{}.attention.self.query",
                           "encoder.layer.{}.attention.self.key",
                           "encoder.layer.{}.attention.self.value",
                           "encoder.layer.{}.attention.output.dense",
                           "encoder.layer.{}.attention.output.LayerNorm",
                           "encoder.layer.{}.intermediate.dense",
                           "encoder.layer.{}.output.dense",
                           "encoder.layer.{}.output.LayerNorm"};

constexpr Names distilbert_names{"distilbert.",
                                 "embeddings.word_embeddings",
                                 "embeddings.position_embeddings",
                                 "",
                                 "embeddings.LayerNorm",
                                 "transformer.layer.{}.attention.q_lin",
                                 "transformer.layer.{}.attention.k_lin",
                                 "transformer.layer.{}.attention.v_lin",
                                 "transformer.layer.{}.attention.out_lin",
                                 "transformer.layer.{}.sa_layer_norm",
                                 "transformer.layer.{}.ffn.lin1",
                                 "transformer.layer.{}.ffn.lin2",
                                 "transformer.layer.{}.output_layer_norm"};

constexpr Names mpnet_names{"mpnet.",
                            "embeddings.word_embeddings",
                            "embeddings.position_embeddings",
                            "",
                            "embeddings.LayerNorm",
                            "encoder.layer.{}.attention.attn.q",
                            "encoder.layer.{}.attention.attn.k",
                            "encoder.layer.{}.attention.attn.v",
                            "encoder.layer.{}.attention.attn.o",
                            "encoder.layer.{}.attention.LayerNorm",
                            "encoder.layer.{}.intermediate.dense",
                            "encoder.layer.{}.output.dense",
                            "encoder.layer.{}.output.LayerNorm"};

Names names_of(EncoderFamily family) {
  switch (family) {
    case EncoderFamily::distilbert:
      return distilbert_names;
    case EncoderFamily::mpnet:
      return mpnet_names;
    case EncoderFamily::roberta: {
      Names names = bert_names;
      names.prefix = "roberta.";
      return names;
    }
    case EncoderFamily::bert:
      break;
  }
  return bert_names;
}

std::string at_layer(std::string_view pattern, std::int64_t layer) {
  const std::size_t place = pattern.find("{}");
  if (place == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, place), layer, pattern.substr(place + 2));
}

/// RoBERTa's and MPNet's positions begin behind the padding token's own.
bool counts_positions(EncoderFamily family) {
  return family == EncoderFamily::roberta || family == EncoderFamily::mpnet;
}

/// T5's buckets of relative positions, both ways, as transformers' MPNetEncoder.relative_position_bucket has them.
std::int64_t relative_bucket(std::int64_t relative, std::int64_t buckets) {
  constexpr double max_distance = 128;  // whatever the buckets
  const std::int64_t half = buckets / 2;
  const std::int64_t side = relative > 0 ? half : 0;
  const std::int64_t distance = std::abs(relative);
  const std::int64_t exact = half / 2;
  if (distance < exact) return side + distance;
  const double far = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                     std::log(max_distance / static_cast<double>(exact)) * static_cast<double>(half - exact);
  return side + std::min(exact + static_cast<std::int64_t>(far), half - 1);
}

/// Of [rows, columns].
std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(matrix.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      result[static_cast<std::size_t>(j * rows + i)] = matrix[static_cast<std::size_t>(i * columns + j)];
    }
  }
  return result;
}

class EncoderWriter {
 public:
  EncoderWriter(const Safetensors& weights, const EncoderConfig& config)
      : weights_(weights), config_(config), names_(names_of(config.family)), graph_("encoder") {
    if (!weights.has(fmt::format("{}.weight", names_.words))) prefix_ = names_.prefix;
  }

  void write(const EncoderHead& head, const std::filesystem::path& file) {
    const std::array<onnx::WrittenSize, 2> tokens{"batch", "sequence"};
    graph_.input("input_ids", ElementType::int64, tokens);
    graph_.input("attention_mask", ElementType::int64, tokens);
    if (has_token_types()) graph_.input("token_type_ids", ElementType::int64, tokens);
    std::string hidden = embeddings();
    const std::string bias = attention_bias();
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const bool is_last = layer + 1 == config_.layers && head.kind == HeadKind::vectors;
      hidden = encoder_layer(hidden, bias, layer, is_last ? "last_hidden_state" : "");
    }
    if (head.kind != HeadKind::vectors) {
      judge(hidden, head.kind);
      refuse_unused();
      graph_.write(file, opset, ir_version);
      return;
    }
    if (head.pooling != GraphPooling::none) {
      const std::array<onnx::WrittenSize, 2> sizes{"batch", head.dense.empty() ? config_.width : head.dense.back().out};
      graph_.output(pool(hidden, head), ElementType::float32, sizes);
    }
    const std::array<onnx::WrittenSize, 3> sizes{"batch", "sequence", config_.width};
    graph_.output(hidden, ElementType::float32, sizes);
    refuse_unused();
    graph_.write(file, opset, ir_version);
  }

 private:
  std::vector<float> floats(const std::string& name, const Shape& shape) {
    used_.insert(name);
    return weights_.floats(name, shape);
  }

  // A tensor of the encoder that its family does not have (an adapter, cross-attention) is part of another
  // computation. Layers behind the last one do not run in transformers either, nor do counters have a part.
  void refuse_unused() const {
    const std::size_t layer_at = names_.query.find("{}");
    const std::string_view of_layers = names_.query.substr(0, layer_at);
    for (const std::string& name : weights_.names()) {
      if (used_.contains(name) || !name.starts_with(prefix_)) continue;
      const std::string_view own = std::string_view(name).substr(prefix_.size());
      if (own.ends_with("position_ids") || own.ends_with("token_type_ids")) continue;
      if (!own.starts_with("embeddings.") && !own.starts_with("encoder.") && !own.starts_with("transformer.")) continue;
      if (own.starts_with(of_layers)) {
        std::int64_t layer = -1;
        const std::string_view number = own.substr(of_layers.size());
        std::from_chars(number.data(), number.data() + number.size(), layer);
        if (layer >= config_.layers) continue;
      }
      throw Error(ErrorCode::invalid_model,
                  fmt::format("the weights have a tensor {}, which a {} of transformers does not have",
                              onnx::quote(name), config_.model_type));
    }
  }

  [[nodiscard]] bool has_token_types() const { return config_.token_types > 1 && !names_.token_types.empty(); }

  std::string tensor(const std::string& name, const Shape& shape) {
    return graph_.floats(name, floats(prefix_ + name, shape), shape);
  }

  std::string list(std::initializer_list<std::int64_t> elements) {
    return graph_.integers(std::vector<std::int64_t>(elements));
  }

  std::string linear(const std::string& input, const std::string& name, std::int64_t from, std::int64_t to,
                     float scale = 1) {
    return outer_linear(input, prefix_ + name, from, to, scale);
  }

  // x W^T + b of a head, which has no prefix. MatMul wants W the other way round; `scale` goes into both.
  std::string outer_linear(const std::string& input, const std::string& name, std::int64_t from, std::int64_t to,
                           float scale = 1, std::string_view output = {}) {
    std::vector<float> columns = transposed(floats(name + ".weight", {to, from}), to, from);
    for (float& value : columns) value *= scale;
    std::vector<float> bias = floats(name + ".bias", {to});
    for (float& value : bias) value *= scale;
    const std::string product = graph_.node("MatMul", {input, graph_.floats(name + ".weight", columns, {from, to})});
    return graph_.node("Add", {product, graph_.floats(name + ".bias", bias, {to})}, {}, output);
  }

  // Older files call scale and shift gamma and beta.
  std::string normalized(const std::string& input, const std::string& name, std::string_view output = {}) {
    const bool is_old = weights_.has(prefix_ + name + ".gamma");
    const std::string scale = tensor(name + (is_old ? ".gamma" : ".weight"), {config_.width});
    const std::string shift = tensor(name + (is_old ? ".beta" : ".bias"), {config_.width});
    return graph_.node("LayerNormalization", {input, scale, shift},
                       {{"axis", std::int64_t{-1}}, {"epsilon", config_.normalization_epsilon}}, output);
  }

  std::string sequence_length() {
    if (length_.empty()) {
      length_ = graph_.node("Shape", {"input_ids"}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
    }
    return length_;
  }

  // The first rows and, where they exist, columns behind them, as many as there are tokens.
  std::string first(const std::string& table, std::initializer_list<std::int64_t> axes) {
    const std::vector<std::int64_t> zeros(axes.size(), 0);
    std::string ends = sequence_length();
    if (axes.size() > 1) {
      ends = graph_.node("Concat", std::vector<std::string>(axes.size(), ends), {{"axis", std::int64_t{0}}});
    }
    return graph_.node("Slice", {table, graph_.integers(zeros), ends, list(axes)});
  }

  std::string positions() {
    const std::string table = tensor(std::string(names_.positions) + ".weight", {config_.positions, config_.width});
    if (!counts_positions(config_.family)) return first(table, {0});
    // cumsum(input_ids != padding) * (input_ids != padding) + padding
    const std::string padding = list({config_.padding_token});
    const std::string is_padding = graph_.node("Equal", {"input_ids", padding});
    const std::string is_token = graph_.node("Cast", {graph_.node("Not", {is_padding})}, {{"to", std::int64_t{7}}});
    const std::string counted = graph_.node("CumSum", {is_token, list({1})});
    const std::string of_tokens = graph_.node("Mul", {counted, is_token});
    return graph_.node("Gather", {table, graph_.node("Add", {of_tokens, padding})});
  }

  std::string embeddings() {
    const std::string words = tensor(std::string(names_.words) + ".weight", {config_.vocabulary, config_.width});
    std::string sum = graph_.node("Gather", {words, "input_ids"});
    if (!names_.token_types.empty()) {
      const std::string table =
          tensor(std::string(names_.token_types) + ".weight", {config_.token_types, config_.width});
      // A single row is the same for every token.
      sum = graph_.node("Add", {sum, has_token_types() ? graph_.node("Gather", {table, "token_type_ids"}) : table});
    }
    sum = graph_.node("Add", {sum, positions()});
    return normalized(sum, std::string(names_.embedding_norm));
  }

  // What is added to the attention's scores: nothing for tokens, and for padding a number whose exponential is 0 and
  // that devices which compute in float16 or bfloat16 can hold: the lowest float32 would be infinite there, and 0 times
  // that no number.
  std::string attention_bias() {
    const std::string mask = graph_.node("Cast", {"attention_mask"}, {{"to", std::int64_t{1}}});
    const std::string wide = graph_.node("Unsqueeze", {mask, list({1, 2})});
    const std::string left_out = graph_.node("Sub", {graph_.scalar(1), wide});
    std::string bias = graph_.node("Mul", {left_out, graph_.scalar(-30000.0F)});
    if (config_.family != EncoderFamily::mpnet) return bias;
    return graph_.node("Add", {bias, relative_bias()});
  }

  std::string relative_bias() {
    const std::int64_t buckets = config_.relative_buckets, heads = config_.heads, most = config_.max_tokens();
    const std::vector<float> table = floats(prefix_ + "encoder.relative_attention_bias.weight", {buckets, heads});
    std::vector<float> all(static_cast<std::size_t>(heads * most * most));
    for (std::int64_t i = 0; i < most; ++i) {
      for (std::int64_t j = 0; j < most; ++j) {
        const std::int64_t bucket = relative_bucket(j - i, buckets);
        for (std::int64_t head = 0; head < heads; ++head) {
          all[static_cast<std::size_t>((head * most + i) * most + j)] =
              table[static_cast<std::size_t>(bucket * heads + head)];
        }
      }
    }
    return first(graph_.floats("relative_attention_bias", all, {1, heads, most, most}), {2, 3});
  }

  std::string heads_of(const std::string& projected, std::initializer_list<std::int64_t> order) {
    const std::string split =
        graph_.node("Reshape", {projected, list({0, 0, config_.heads, config_.width / config_.heads})});
    return graph_.node("Transpose", {split}, {{"perm", std::vector<std::int64_t>(order)}});
  }

  std::string encoder_layer(const std::string& input, const std::string& bias, std::int64_t layer,
                            std::string_view output) {
    const auto name = [&](std::string_view pattern) { return at_layer(pattern, layer); };
    const std::int64_t width = config_.width;
    const std::int64_t head_width = width / config_.heads;
    const float scale = 1 / std::sqrt(static_cast<float>(head_width));
    const std::string query = heads_of(linear(input, name(names_.query), width, width, scale), {0, 2, 1, 3});
    const std::string key = heads_of(linear(input, name(names_.key), width, width), {0, 2, 3, 1});
    const std::string value = heads_of(linear(input, name(names_.value), width, width), {0, 2, 1, 3});
    const std::string scores = graph_.node("Add", {graph_.node("MatMul", {query, key}), bias});
    const std::string shares = graph_.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string mixed = graph_.node("Transpose", {graph_.node("MatMul", {shares, value})},
                                          {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    const std::string joined = graph_.node("Reshape", {mixed, list({0, 0, width})});
    const std::string attended = linear(joined, name(names_.attention_out), width, width);
    const std::string middle = normalized(graph_.node("Add", {attended, input}), name(names_.attention_norm));
    const std::string inner = activated(linear(middle, name(names_.inner), width, config_.inner_width));
    const std::string outer = linear(inner, name(names_.outer), config_.inner_width, width);
    return normalized(graph_.node("Add", {outer, middle}), name(names_.outer_norm), output);
  }

  std::string activated(const std::string& input) {
    if (config_.activation == "relu") return graph_.node("Relu", {input});
    const bool is_exact = config_.activation == "gelu";
    return graph_.node("Gelu", {input}, {{"approximate", std::string(is_exact ? "none" : "tanh")}});
  }

  std::string first_token(const std::string& hidden, std::string_view output = {}) {
    return graph_.node("Squeeze", {graph_.node("Slice", {hidden, list({0}), list({1}), list({1})}), list({1})}, {},
                       output);
  }

  // As transformers' modules of the families have it.
  void judge(const std::string& hidden, HeadKind kind) {
    const std::int64_t width = config_.width;
    if (kind == HeadKind::token_classification) {
      const std::array<onnx::WrittenSize, 3> sizes{"batch", "sequence", config_.labels};
      graph_.output(outer_linear(hidden, "classifier", width, config_.labels, 1, "logits"), ElementType::float32,
                    sizes);
      return;
    }
    if (kind == HeadKind::question_answering) {
      const std::string both = outer_linear(hidden, "qa_outputs", width, 2);
      const std::array<onnx::WrittenSize, 2> sizes{"batch", "sequence"};
      for (const std::int64_t place : {0, 1}) {
        const std::string one = graph_.node("Slice", {both, list({place}), list({place + 1}), list({2})});
        graph_.output(graph_.node("Squeeze", {one, list({2})}, {}, place == 0 ? "start_logits" : "end_logits"),
                      ElementType::float32, sizes);
      }
      return;
    }
    const std::string first = first_token(hidden);
    std::string judged;
    std::string last = "classifier";
    switch (config_.family) {
      case EncoderFamily::bert:
        judged = graph_.node("Tanh", {linear(first, "pooler.dense", width, width)});
        break;
      case EncoderFamily::distilbert:
        judged = graph_.node("Relu", {outer_linear(first, "pre_classifier", width, width)});
        break;
      case EncoderFamily::roberta:
      case EncoderFamily::mpnet:
        judged = graph_.node("Tanh", {outer_linear(first, "classifier.dense", width, width)});
        last = "classifier.out_proj";
        break;
    }
    const std::array<onnx::WrittenSize, 2> sizes{"batch", config_.labels};
    graph_.output(outer_linear(judged, last, width, config_.labels, 1, "logits"), ElementType::float32, sizes);
  }

  std::string pool(const std::string& hidden, const EncoderHead& head) {
    const std::string_view output =
        head.normalize || !head.dense.empty() ? std::string_view() : std::string_view("sentence_embedding");
    std::string pooled;
    switch (head.pooling) {
      case GraphPooling::cls:
        pooled = first_token(hidden, output);
        break;
      case GraphPooling::max:
        pooled = graph_.node("ReduceMax", {graph_.node("Where", {is_token(), hidden, graph_.scalar(-1e9F)}), list({1})},
                             {{"keepdims", std::int64_t{0}}}, output);
        break;
      case GraphPooling::mean:
      case GraphPooling::none: {
        // A product adds up in the same order whatever the batch; ONNX Runtime's ReduceSum does not.
        const std::string mask = graph_.node("Cast", {"attention_mask"}, {{"to", std::int64_t{1}}});
        const std::string row = graph_.node("Unsqueeze", {mask, list({1})});
        const std::string sum = graph_.node("Squeeze", {graph_.node("MatMul", {row, hidden}), list({1})});
        const std::string count =
            graph_.node("Max", {graph_.node("ReduceSum", {mask, list({1})}), graph_.scalar(1e-9F)});
        pooled = graph_.node("Div", {sum, count}, {}, output);
        break;
      }
    }
    for (std::size_t i = 0; i < head.dense.size(); ++i) {
      const bool is_last = i + 1 == head.dense.size() && !head.normalize;
      pooled = dense(pooled, head.dense[i], fmt::format("dense.{}", i), is_last ? "sentence_embedding" : "");
    }
    if (!head.normalize) return pooled;
    const std::string length =
        graph_.node("Max", {graph_.node("ReduceL2", {pooled, list({1})}), graph_.scalar(1e-12F)});
    return graph_.node("Div", {pooled, length}, {}, "sentence_embedding");
  }

  // A product for each row of the batch, and not one of all rows together, which may add up in another order.
  std::string dense(const std::string& input, const DenseLayer& layer, const std::string& name,
                    std::string_view output) {
    const std::string weights = graph_.floats(name + ".weight", layer.weights, {layer.out, layer.in});
    const std::string columns = graph_.node("MatMul", {weights, graph_.node("Unsqueeze", {input, list({2})})});
    const std::string product = graph_.node(
        "Add", {graph_.node("Squeeze", {columns, list({2})}), graph_.floats(name + ".bias", layer.bias, {layer.out})});
    switch (layer.activation) {
      case Activation::tanh:
        return graph_.node("Tanh", {product}, {}, output);
      case Activation::relu:
        return graph_.node("Relu", {product}, {}, output);
      case Activation::gelu:
        return graph_.node("Gelu", {product}, {}, output);
      case Activation::sigmoid:
        return graph_.node("Sigmoid", {product}, {}, output);
      case Activation::identity:
        break;
    }
    return graph_.node("Identity", {product}, {}, output);
  }

  std::string is_token() {
    return graph_.node("Unsqueeze", {graph_.node("Cast", {"attention_mask"}, {{"to", std::int64_t{9}}}), list({2})});
  }

  const Safetensors& weights_;
  const EncoderConfig& config_;
  Names names_;
  onnx::GraphWriter graph_;
  std::string prefix_, length_;
  std::set<std::string> used_;
};

class ConfigReader {
 public:
  explicit ConfigReader(const json& config) : config_(config) {}

  /// Null where none of the names is there. The families do not agree on names.
  [[nodiscard]] const json* find(std::initializer_list<const char*> names, std::string* name = nullptr) const {
    for (const char* each : names) {
      const auto found = config_.find(each);
      if (found == config_.end() || found->is_null()) continue;
      if (name != nullptr) *name = each;
      return &*found;
    }
    return nullptr;
  }

  [[nodiscard]] std::int64_t number(std::initializer_list<const char*> names,
                                    std::optional<std::int64_t> otherwise = {}) const {
    std::string name;
    const json* found = find(names, &name);
    if (found != nullptr) {
      if (!found->is_number_integer() || *found < 0) refuse(name, *found, "a whole number from 0 on");
      return found->get<std::int64_t>();
    }
    if (otherwise) return *otherwise;
    throw Error(ErrorCode::invalid_config, fmt::format("config.json says no {}", *names.begin()));
  }

  [[nodiscard]] std::string text(std::initializer_list<const char*> names, std::string otherwise) const {
    std::string name;
    const json* found = find(names, &name);
    if (found == nullptr) return otherwise;
    if (!found->is_string()) refuse(name, *found, "a text");
    return found->get<std::string>();
  }

  [[nodiscard]] float positive(const char* name, float otherwise) const {
    const json* found = find({name});
    if (found == nullptr) return otherwise;
    if (!found->is_number() || !(found->get<float>() > 0)) refuse(name, *found, "a number above 0");
    return found->get<float>();
  }

  [[noreturn]] static void refuse(std::string_view name, const json& value, std::string_view accepted) {
    constexpr std::size_t limit_characters = 80;
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > limit_characters) text = text.substr(0, limit_characters) + "...";
    throw Error(ErrorCode::invalid_config,
                fmt::format("config.json: {} {} is not served; accepted: {}", name, text, accepted));
  }

 private:
  const json& config_;
};

// Keys by which transformers computes something else with the same weights.
void refuse_other_computations(const ConfigReader& reader) {
  for (const char* name : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    const json* found = reader.find({name});
    if (found != nullptr && *found != json(false)) ConfigReader::refuse(name, *found, "false, an encoder");
  }
  const std::string positions = reader.text({"position_embedding_type"}, "absolute");
  if (positions != "absolute") ConfigReader::refuse("position_embedding_type", positions, "\"absolute\"");
  const json* pruned = reader.find({"pruned_heads"});
  if (pruned != nullptr && !pruned->empty()) ConfigReader::refuse("pruned_heads", *pruned, "{}, all heads");
  const json* quantization = reader.find({"quantization_config"});
  if (quantization != nullptr) ConfigReader::refuse("quantization_config", *quantization, "weights in floating types");
  const json* code = reader.find({"auto_map"});
  if (code == nullptr || !code->is_object()) return;
  for (const auto& [name, place] : code->items()) {
    if (name.starts_with("AutoModel")) {
      ConfigReader::refuse("auto_map." + name, place, "models of transformers itself, without code of their own");
    }
  }
}

EncoderFamily family_of(const std::string& type) {
  if (type == "bert") return EncoderFamily::bert;
  if (type == "roberta" || type == "xlm-roberta" || type == "camembert") return EncoderFamily::roberta;
  if (type == "distilbert") return EncoderFamily::distilbert;
  if (type == "mpnet") return EncoderFamily::mpnet;
  throw Error(
      ErrorCode::invalid_config,
      fmt::format("config.json: model_type '{}' is not served; bert, roberta, xlm-roberta, camembert, distilbert "
                  "and mpnet are",
                  type.substr(0, 80)));
}

}  // namespace

std::int64_t EncoderConfig::max_tokens() const noexcept {
  return counts_positions(family) ? positions - padding_token - 1 : positions;
}

EncoderConfig read_encoder_config(std::string_view config_json) {
  json parsed;
  try {
    parsed = parse_bounded_json<json>(config_json);
  } catch (const json::exception&) {
    parsed = nullptr;  // refused below
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_config, "config.json: " + error.message());
  }
  if (!parsed.is_object()) throw Error(ErrorCode::invalid_config, "config.json is no JSON object");
  const ConfigReader reader(parsed);
  EncoderConfig config;
  config.model_type = reader.text({"model_type"}, "");
  config.family = family_of(config.model_type);
  refuse_other_computations(reader);
  const bool is_distilbert = config.family == EncoderFamily::distilbert;
  config.layers = reader.number({"num_hidden_layers", "n_layers"});
  config.heads = reader.number({"num_attention_heads", "n_heads"});
  config.width = reader.number({"hidden_size", "dim"});
  config.inner_width = reader.number({"intermediate_size", "hidden_dim"});
  config.vocabulary = reader.number({"vocab_size"});
  config.positions = reader.number({"max_position_embeddings"});
  config.token_types = reader.number({"type_vocab_size"}, config.family == EncoderFamily::bert ? 2 : 1);
  config.padding_token = reader.number({"pad_token_id"}, counts_positions(config.family) ? 1 : 0);
  // transformers' MPNetEmbeddings counts from there, whatever config.json says.
  if (config.family == EncoderFamily::mpnet) config.padding_token = 1;
  config.relative_buckets = reader.number({"relative_attention_num_buckets"}, 32);
  const char* activation_key = is_distilbert ? "activation" : "hidden_act";
  config.activation = reader.text({activation_key}, "gelu");
  const auto architectures = parsed.find("architectures");
  if (architectures != parsed.end() && architectures->is_array() && !architectures->empty() &&
      architectures->front().is_string()) {
    config.architecture = architectures->front().get<std::string>();
  }
  const auto labels = parsed.find("id2label");
  config.labels = labels != parsed.end() && labels->is_object() && !labels->empty()
                      ? static_cast<std::int64_t>(labels->size())
                      : reader.number({"num_labels"}, 2);
  // DistilBERT's is fixed in transformers, whatever config.json says.
  config.normalization_epsilon = is_distilbert ? 1e-12F : reader.positive("layer_norm_eps", 1e-12F);

  constexpr std::array activations{"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"};
  if (std::find(activations.begin(), activations.end(), config.activation) == activations.end()) {
    ConfigReader::refuse(activation_key, config.activation, "gelu, gelu_new, gelu_pytorch_tanh, relu");
  }
  if (config.heads == 0 || config.width == 0 || config.width % config.heads != 0 || config.layers == 0) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("config.json: {} layers of width {} with {} heads do not make an encoder", config.layers,
                            config.width, config.heads));
  }
  return config;
}

HeadKind head_kind_of(const EncoderConfig& config) noexcept {
  const std::string_view architecture = config.architecture;
  if (architecture.ends_with("ForSequenceClassification")) return HeadKind::classification;
  if (architecture.ends_with("ForTokenClassification")) return HeadKind::token_classification;
  if (architecture.ends_with("ForQuestionAnswering")) return HeadKind::question_answering;
  return HeadKind::vectors;
}

void write_encoder(const Safetensors& weights, const EncoderConfig& config, const EncoderHead& head,
                   const std::filesystem::path& file) {
  EncoderWriter(weights, config).write(head, file);
}

}  // namespace gpux::importer
