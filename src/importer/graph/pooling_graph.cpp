#include "importer/graph/pooling_graph.h"

#include "importer/graph/distances.h"

namespace gpux::importer {
namespace {

constexpr std::int64_t type_float = 1, type_int64 = 7, type_bool = 9;  // ONNX's TensorProto.DataType

std::string first_token(GraphContext& context, const std::string& hidden, std::string_view output) {
  const std::string start = context.list({0});
  const std::string end = context.list({1});
  const std::string first = context.node("Slice", {hidden, start, end, context.list({1})});
  return context.node("Squeeze", {first, context.list({1})}, {}, output);
}

std::string maximum(GraphContext& context, const std::string& hidden, std::string_view output) {
  const std::string mask = context.node("Cast", {"attention_mask"}, {{"to", type_bool}});
  const std::string is_token = context.node("Unsqueeze", {mask, context.list({2})});
  constexpr float below_all = -1e9F;
  const std::string tokens = context.node("Where", {is_token, hidden, context.scalar(below_all)});
  return context.node("ReduceMax", {tokens, context.list({1})}, {{"keepdims", std::int64_t{0}}}, output);
}

// A product adds up in the same order whatever the batch; ONNX Runtime's ReduceSum does not.
std::string mean(GraphContext& context, const std::string& hidden, std::string_view output) {
  const std::string mask = context.node("Cast", {"attention_mask"}, {{"to", type_float}});
  const std::string row = context.node("Unsqueeze", {mask, context.list({1})});
  const std::string product = context.node("MatMul", {row, hidden});
  const std::string sum = context.node("Squeeze", {product, context.list({1})});
  constexpr float least_count = 1e-9F;
  const std::string tokens = context.node("ReduceSum", {mask, context.list({1})});
  const std::string count = context.node("Max", {tokens, context.scalar(least_count)});
  return context.node("Div", {sum, count}, {}, output);
}

// The greatest index of those that the mask has: tokens may be padded on either side.
std::string last_token(GraphContext& context, const std::string& hidden, std::string_view output) {
  const std::string mask = context.node("Cast", {"attention_mask"}, {{"to", type_int64}});
  const std::string count = token_count(context);
  const std::string zero = context.graph().integer(0);
  const std::string positions = context.node("Range", {zero, count, context.graph().integer(1)});
  const std::string index = context.node("ReduceMax", {context.node("Mul", {mask, positions}), context.list({1})},
                                         {{"keepdims", std::int64_t{1}}});
  return context.node("GatherND", {hidden, index}, {{"batch_dims", std::int64_t{1}}}, output);
}

}  // namespace

std::string pooled(GraphContext& context, const std::string& hidden, GraphPooling pooling, std::string_view output) {
  switch (pooling) {
    case GraphPooling::cls:
      return first_token(context, hidden, output);
    case GraphPooling::max:
      return maximum(context, hidden, output);
    case GraphPooling::last_token:
      return last_token(context, hidden, output);
    case GraphPooling::mean:
    case GraphPooling::none:
      break;
  }
  return mean(context, hidden, output);
}

// A product for each row of the batch, and not one of all rows together, which may add up in another order.
std::string dense(GraphContext& context, const std::string& input, const checkpoint::DenseLayer& layer,
                  const std::string& name, std::string_view output) {
  const std::string weights = context.graph().floats(name + ".weight", layer.weights, {layer.out, layer.in});
  const std::string column = context.node("Unsqueeze", {input, context.list({2})});
  const std::string columns = context.node("MatMul", {weights, column});
  const std::string product = context.node("Squeeze", {columns, context.list({2})});
  const std::string bias = context.graph().floats(name + ".bias", layer.bias, {layer.out});
  const std::string sum = context.node("Add", {product, bias});
  if (layer.activation == checkpoint::Activation::identity) return context.node("Identity", {sum}, {}, output);
  return context.activated(sum, layer.activation, output);
}

std::string unit_vectors(GraphContext& context, const std::string& input, std::string_view output) {
  constexpr float least_length = 1e-12F;
  const std::string length = context.node("ReduceL2", {input, context.list({1})});
  return context.node("Div", {input, context.node("Max", {length, context.scalar(least_length)})}, {}, output);
}

}  // namespace gpux::importer
