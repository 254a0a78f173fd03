#include "importer/graph/graph_context.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "importer/graph/adapters.h"
#include "importer/graph/transposed.h"

namespace gpux::importer {
namespace {

std::vector<float> scaled(std::vector<float> values, float offset, float scale) {
  if (offset != 0) {
    for (float& value : values) value += offset;
  }
  for (float& value : values) value *= scale;
  return values;
}

}  // namespace

const std::string& GraphContext::once(const std::string& key, const std::function<std::string()>& make) {
  const auto found = once_.find(key);
  if (found != once_.end()) return found->second;
  std::string made = make();
  return once_.emplace(key, std::move(made)).first->second;
}

// A tensor that several layers share is stored once.
std::string GraphContext::constant(const std::string& name, const Shape& shape, const std::string& content,
                                   onnx::FloatSource source) {
  const auto [found, is_new] = constants_.emplace(name, content);
  if (is_new) return graph_.floats(name, shape, std::move(source));
  if (found->second != content) {
    throw Error(ErrorCode::internal,
                fmt::format("the tensor {} is used in two forms: {}, {}", name, found->second, content));
  }
  return name;
}

std::string GraphContext::tensor(const std::string& name, const Shape& shape) {
  return tensor(name, shape, 0, 1);
}

std::string GraphContext::tensor(const std::string& name, const Shape& shape, float offset, float scale) {
  weights_.require(name, shape);
  used_.insert(name);
  return constant(name, shape, fmt::format("{} + {} * {}", to_string(shape), offset, scale),
                  [this, name, shape, offset, scale] { return scaled(weights_.floats(name, shape), offset, scale); });
}

std::vector<float> GraphContext::floats(const std::string& name, const Shape& shape) {
  used_.insert(name);
  return weights_.floats(name, shape);
}

std::string GraphContext::derived(const std::string& name, const Shape& shape, const std::string& form,
                                  const Shape& made, std::function<std::vector<float>(std::vector<float>)> make) {
  weights_.require(name, shape);
  used_.insert(name);
  return constant(fmt::format("{}.{}", name, form), made, to_string(made),
                  [this, name, shape, make = std::move(make)] { return make(weights_.floats(name, shape)); });
}

std::string GraphContext::linear(const std::string& input, const Linear& linear, float scale, std::string_view output) {
  if (!linear.adapter) return plain_linear(input, linear, scale, output);
  const std::string plain = plain_linear(input, linear, scale, {});
  return graph_.node("Add", {plain, adapted(*this, input, linear, *linear.adapter, scale)}, {}, output);
}

std::string GraphContext::plain_linear(const std::string& input, const Linear& linear, float scale,
                                       std::string_view output) {
  const std::int64_t in = linear.in, out = linear.out, first = linear.first_row;
  const std::int64_t stored = linear.stored_rows == 0 ? out : linear.stored_rows;
  const std::string suffix = stored == out ? std::string() : fmt::format(".rows_{}", first);
  const auto name_of = [&](const std::string& tensor) { return tensor + suffix; };
  const auto content = [&](std::string_view form) { return fmt::format("{} {} {} {}", form, in, out, scale); };
  weights_.require(linear.weight, {stored, in});
  used_.insert(linear.weight);
  // MatMul takes the weight transposed.
  const std::string weight =
      constant(name_of(linear.weight), {in, out}, content("columns"),
               [this, name = linear.weight, in, out, first, stored, scale] {
                 return scaled(transposed(weights_.floats(name, {stored, in}, first, out), out, in), 0, scale);
               });
  if (linear.bias.empty()) return graph_.node("MatMul", {input, weight}, {}, output);
  weights_.require(linear.bias, {stored});
  used_.insert(linear.bias);
  const std::string product = graph_.node("MatMul", {input, weight});
  const std::string bias =
      constant(name_of(linear.bias), {out}, content("bias"), [this, name = linear.bias, out, first, stored, scale] {
        return scaled(weights_.floats(name, {stored}, first, out), 0, scale);
      });
  return graph_.node("Add", {product, bias}, {}, output);
}

std::string GraphContext::normalized(const std::string& input, const Norm& norm, float scale, std::string_view output) {
  const std::string weight = tensor(norm.weight, {norm.size}, norm.weight_offset, scale);
  if (norm.kind == NormKind::layer) {
    std::vector<std::string> inputs{input, weight};
    if (!norm.bias.empty()) inputs.push_back(tensor(norm.bias, {norm.size}, 0, scale));
    return graph_.node("LayerNormalization", inputs, {{"axis", std::int64_t{-1}}, {"epsilon", norm.epsilon}}, output);
  }
  if (operators_ == Operators::onnxruntime) {
    // ONNX Runtime has it in ONNX's own domain.
    return graph_.node("SimplifiedLayerNormalization", {input, weight},
                       {{"axis", std::int64_t{-1}}, {"epsilon", norm.epsilon}}, output);
  }
  const std::string square = graph_.node("Mul", {input, input});
  const std::string mean = graph_.node("ReduceMean", {square, list({-1})}, {{"keepdims", std::int64_t{1}}});
  const std::string root = graph_.node("Sqrt", {graph_.node("Add", {mean, scalar(norm.epsilon)})});
  return graph_.node("Mul", {graph_.node("Div", {input, root}), weight}, {}, output);
}

std::string GraphContext::activated(const std::string& input, Activation activation, std::string_view output) {
  switch (activation) {
    case Activation::tanh:
      return graph_.node("Tanh", {input}, {}, output);
    case Activation::relu:
      return graph_.node("Relu", {input}, {}, output);
    case Activation::sigmoid:
      return graph_.node("Sigmoid", {input}, {}, output);
    case Activation::gelu:
      return graph_.node("Gelu", {input}, {{"approximate", std::string("none")}}, output);
    case Activation::gelu_tanh:
      return graph_.node("Gelu", {input}, {{"approximate", std::string("tanh")}}, output);
    case Activation::silu:
      return graph_.node("Mul", {input, graph_.node("Sigmoid", {input})}, {}, output);
    case Activation::quick_gelu: {
      constexpr float factor = 1.702F;
      const std::string sigmoid = graph_.node("Sigmoid", {graph_.node("Mul", {input, scalar(factor)})});
      return graph_.node("Mul", {input, sigmoid}, {}, output);
    }
    case Activation::identity:
      break;
  }
  return output.empty() ? input : graph_.node("Identity", {input}, {}, output);
}

const std::string& GraphContext::sequence_length() {
  return once("sequence length", [&] {
    return graph_.node("Shape", {"input_ids"}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
  });
}

}  // namespace gpux::importer
