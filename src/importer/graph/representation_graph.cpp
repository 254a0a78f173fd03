#include "importer/graph/representation_graph.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

namespace gpux::importer {
namespace {

constexpr std::int64_t type_float = 1, type_bool = 9;  // ONNX's TensorProto.DataType

std::string log_of_one_more(GraphContext& context, const std::string& input, std::string_view output = {}) {
  return context.node("Log", {context.node("Add", {input, context.scalar(1)})}, {}, output);
}

std::string projected(GraphContext& context, const std::string& input, const checkpoint::DenseLayer& layer,
                      const std::string& name, std::string_view output = {}) {
  std::vector<float> columns(layer.weights.size());
  for (std::int64_t i = 0; i < layer.out; ++i) {
    for (std::int64_t j = 0; j < layer.in; ++j) {
      columns[static_cast<std::size_t>(j * layer.out + i)] = layer.weights[static_cast<std::size_t>(i * layer.in + j)];
    }
  }
  const bool has_bias = std::ranges::any_of(layer.bias, [](float x) { return x != 0; });
  const bool is_linear = layer.activation == checkpoint::Activation::identity;
  const std::string weight = context.graph().floats(name + ".weight", columns, {layer.in, layer.out});
  std::string result =
      context.node("MatMul", {input, weight}, {}, !has_bias && is_linear ? output : std::string_view());
  if (has_bias) {
    const std::string bias = context.graph().floats(name + ".bias", layer.bias, {layer.out});
    result = context.node("Add", {result, bias}, {}, is_linear ? output : std::string_view());
  }
  return is_linear ? result : context.activated(result, layer.activation, output);
}

// A tied decoder is the table of words the other way round, which the file holds once.
std::string decoded(GraphContext& context, const MaskedLanguageHead& head, const std::string& input) {
  if (!context.used().contains(head.decoder.weight)) return context.linear(input, head.decoder);
  const std::string words = context.tensor(head.decoder.weight, {head.decoder.out, head.decoder.in});
  const std::string columns = context.node("Transpose", {words}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  return context.node("MatMul", {input, columns});
}

}  // namespace

void write_splade(GraphContext& context, const MaskedLanguageHead& head, const checkpoint::SpladePooling& pooling,
                  const std::string& hidden) {
  const std::string transformed =
      context.normalized(context.activated(context.linear(hidden, head.dense), head.activation), head.norm);
  const std::string scores = decoded(context, head, transformed);
  const std::string bias = context.tensor(head.bias, {head.decoder.out});
  constexpr std::string_view output = "sparse_embedding";
  const auto activated = [&](const std::string& input, std::string_view name) {
    const std::string positive = context.node("Relu", {input});
    if (!pooling.has_second_log) return log_of_one_more(context, positive, name);
    return log_of_one_more(context, log_of_one_more(context, positive), name);
  };
  const std::array<onnx::WrittenSize, 2> sizes{"batch", head.decoder.out};
  if (pooling.strategy == checkpoint::SpladePooling::Strategy::sum) {
    const std::string weights = activated(context.node("Add", {scores, bias}), {});
    const std::string mask = context.node("Cast", {"attention_mask"}, {{"to", type_float}});
    const std::string row = context.node("Unsqueeze", {mask, context.list({1})});
    const std::string sum = context.node("MatMul", {row, weights});
    context.graph().output(context.node("Squeeze", {sum, context.list({1})}, {}, output), ElementType::float32, sizes);
    return;
  }
  constexpr float below_all = -1e9F;
  const std::string mask = context.node("Cast", {"attention_mask"}, {{"to", type_bool}});
  const std::string is_token = context.node("Unsqueeze", {mask, context.list({2})});
  const std::string tokens = context.node("Where", {is_token, scores, context.scalar(below_all)});
  const std::string largest = context.node("ReduceMax", {tokens, context.list({1})}, {{"keepdims", std::int64_t{0}}});
  context.graph().output(activated(context.node("Add", {largest, bias}), output), ElementType::float32, sizes);
}

void write_token_vectors(GraphContext& context, const std::vector<checkpoint::DenseLayer>& layers, bool normalize,
                         const std::string& hidden, std::string_view output, std::int64_t first_token) {
  std::string vectors = hidden;
  if (first_token != 0) {
    const std::string start = context.list({first_token});
    const std::string end = context.list({std::numeric_limits<std::int64_t>::max()});
    vectors = context.node("Slice", {vectors, start, end, context.list({1})});
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_last = i + 1 == layers.size() && !normalize;
    vectors =
        projected(context, vectors, layers[i], fmt::format("{}.{}", output, i), is_last ? output : std::string_view());
  }
  if (normalize) {
    constexpr float least_length = 1e-12F;
    const std::string length = context.node("ReduceL2", {vectors, context.list({2})});
    vectors = context.node("Div", {vectors, context.node("Max", {length, context.scalar(least_length)})}, {}, output);
  } else if (layers.empty()) {
    vectors = context.node("Identity", {vectors}, {}, output);
  }
  const std::array<onnx::WrittenSize, 3> sizes{"batch", first_token == 0 ? "sequence" : "sequence_without_first",
                                               layers.back().out};
  context.graph().output(vectors, ElementType::float32, sizes);
}

void write_token_weights(GraphContext& context, const checkpoint::DenseLayer& layer, const std::string& hidden) {
  const std::string weights = projected(context, hidden, layer, "sparse_vecs");
  const std::array<onnx::WrittenSize, 3> sizes{"batch", "sequence", layer.out};
  context.graph().output(context.node("Relu", {weights}, {}, "sparse_vecs"), ElementType::float32, sizes);
}

}  // namespace gpux::importer
