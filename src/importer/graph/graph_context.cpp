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

std::int64_t stored_rows_of(const Linear& linear) {
  return linear.stored_rows == 0 ? linear.out : linear.stored_rows;
}

Shape stored_shape_of(const Linear& linear) {
  const std::int64_t rows = stored_rows_of(linear);
  return linear.is_transposed ? Shape{linear.in, rows} : Shape{rows, linear.in};
}

/// Columns of [rows, stored].
template <typename T>
std::vector<T> columns_of(const std::vector<T>& matrix, std::int64_t rows, std::int64_t stored, std::int64_t first,
                          std::int64_t count) {
  if (count == stored) return matrix;
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(rows * count));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = matrix.begin() + row * stored + first;
    result.insert(result.end(), begin, begin + count);
  }
  return result;
}

/// The weight as [out, in], or turned as [in, out]; read(name, shape, first row, rows) gives its elements.
template <typename Read>
auto elements_of(const Linear& linear, bool turned, const Read& read) {
  const Shape shape = stored_shape_of(linear);
  if (linear.is_transposed) {
    const auto columns = columns_of(read(linear.weight, shape, 0, linear.in), linear.in, stored_rows_of(linear),
                                    linear.first_row, linear.out);
    return turned ? columns : transposed(columns, linear.in, linear.out);
  }
  auto rows = read(linear.weight, shape, linear.first_row, linear.out);
  return turned ? transposed(rows, linear.out, linear.in) : std::move(rows);
}

std::vector<float> floats_of(const checkpoint::Weights& weights, const Linear& linear, bool turned, float scale) {
  return scaled(elements_of(linear, turned, [&](const auto&... rows) { return weights.floats(rows...); }), 0, scale);
}

onnx::BlockMatrix rounded_to_blocks(const checkpoint::Weights& weights, const Linear& linear, float scale,
                                    const onnx::BlockFormat& format) {
  const std::vector<float> rows = floats_of(weights, linear, false, scale);
  std::optional<onnx::BlockMatrix> made = onnx::quantize_to_blocks(rows, linear.out, linear.in, format);
  if (made) return *std::move(made);
  throw Error(ErrorCode::invalid_model,
              fmt::format("{} has NaN or infinities, and cannot be quantized", linear.weight));
}

std::string stored_name(const std::string& tensor, const Linear& linear) {
  return stored_rows_of(linear) == linear.out ? tensor : fmt::format("{}.rows_{}", tensor, linear.first_row);
}

// Equal texts for equal contents.
std::string form_of(const Shape& shape, float offset, float scale) {
  return fmt::format("{} + {} * {}", to_string(shape), offset, scale);
}

Linear table_of(const std::string& name, const Shape& shape) {
  return {.weight = name, .in = shape.at(1), .out = shape.at(0)};
}

constexpr std::int64_t type_float = 1;  // ONNX's TensorProto.DataType

}  // namespace

const std::string& GraphContext::once(const std::string& key, const std::function<std::string()>& make) {
  const auto found = once_.find(key);
  if (found != once_.end()) return found->second;
  std::string made = make();
  return once_.emplace(key, std::move(made)).first->second;
}

// A tensor that several layers share is stored once.
bool GraphContext::is_new(const std::string& name, const std::string& form) {
  const auto [found, is_new] = constants_.emplace(name, form);
  if (is_new || found->second == form) return is_new;
  throw Error(ErrorCode::internal,
              fmt::format("the tensor {} is used in two forms: {}, {}", name, found->second, form));
}

std::string GraphContext::constant(const std::string& name, const Shape& shape, const std::string& content,
                                   onnx::FloatSource source) {
  return is_new(name, content) ? graph_.floats(name, shape, std::move(source)) : name;
}

std::string GraphContext::tensor(const std::string& name, const Shape& shape) {
  return tensor(name, shape, 0, 1);
}

std::string GraphContext::tensor(const std::string& name, const Shape& shape, float offset, float scale) {
  weights_.require(name, shape);
  used_.insert(name);
  return constant(name, shape, form_of(shape, offset, scale),
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

std::string GraphContext::matrix(const Linear& linear, bool turned, float scale) {
  const Shape shape = turned ? Shape{linear.in, linear.out} : Shape{linear.out, linear.in};
  std::string name = stored_name(linear.weight, linear);
  const ElementType type = weights_.floating_type(linear.weight);
  const bool keeps_type = storage_.keeps_small_floats && bits_of(type) == 16 && scale == 1;
  const std::string form = (turned ? "turned " : "") + form_of(shape, 0, scale);
  if (!keeps_type) {
    return constant(name, shape, form,
                    [this, linear, turned, scale] { return floats_of(weights_, linear, turned, scale); });
  }
  if (is_new(name, form)) {
    graph_.constant(name, type, shape, [this, linear, turned] {
      return elements_of(linear, turned, [&](const auto&... rows) { return weights_.small_floats(rows...); });
    });
  }
  return once("float32 " + name, [&] { return graph_.node("Cast", {name}, {{"to", type_float}}); });
}

std::optional<onnx::BlockFormat> GraphContext::block_format(const Linear& linear) const {
  if (storage_.blocks) return storage_.blocks;
  return linear.is_transposed ? std::nullopt : weights_.block_format(linear.weight);
}

onnx::BlockConstant GraphContext::blocks(const Linear& linear, const onnx::BlockFormat& format, float scale) {
  const std::string name = stored_name(linear.weight, linear);
  if (!is_new(name, fmt::format("blocks {} {} {}", linear.in, linear.out, scale))) return blocks_.at(name);
  const bool rounds = storage_.blocks.has_value();
  onnx::BlockConstant constant =
      onnx::add_blocks(graph_, name, linear.out, linear.in, format, [this, linear, scale, format, rounds] {
        if (rounds) return rounded_to_blocks(weights_, linear, scale, format);
        onnx::BlockMatrix stored =
            weights_.blocks(linear.weight, stored_shape_of(linear), linear.first_row, linear.out);
        for (float& of_block : stored.scales) of_block *= scale;
        for (float& of_block : stored.minimums) of_block *= scale;
        return stored;
      });
  return blocks_.emplace(name, std::move(constant)).first->second;
}

std::string GraphContext::block_product(const onnx::RankedValue& input, const onnx::BlockConstant& matrix,
                                        std::string_view output) {
  if (!matrix.format.has_minimums) return onnx::multiply_blocks(graph_, input.name, matrix, output);
  // Queries, keys and values have them in common, and gates and what they let through.
  const std::string key = fmt::format("sums of {} elements of {}", matrix.format.block_size, input.name);
  return onnx::multiply_blocks(graph_, input.name, matrix, output,
                               once(key, [&] { return onnx::sums_of_blocks(graph_, input, matrix); }));
}

std::string GraphContext::bias(const Linear& linear, float scale) {
  const std::int64_t stored = stored_rows_of(linear);
  weights_.require(linear.bias, {stored});
  used_.insert(linear.bias);
  return constant(stored_name(linear.bias, linear), {linear.out}, fmt::format("bias {} {}", linear.out, scale),
                  [this, linear, stored, scale] {
                    return scaled(weights_.floats(linear.bias, {stored}, linear.first_row, linear.out), 0, scale);
                  });
}

std::string GraphContext::gathered(const std::string& table, const Shape& shape, const std::string& indices) {
  weights_.require(table, shape);
  used_.insert(table);
  const Linear rows = table_of(table, shape);
  if (const auto format = block_format(rows)) {
    return onnx::gather_blocks(graph_, {.name = indices, .rank = 2}, blocks(rows, *format, 1));
  }
  return graph_.node("Gather", {matrix(rows, false, 1), indices});
}

std::string GraphContext::linear_by_rows(const std::string& input, const Linear& linear) {
  weights_.require(linear.weight, stored_shape_of(linear));
  used_.insert(linear.weight);
  if (const auto format = block_format(linear)) {
    const std::string product = block_product({.name = input, .rank = 2}, blocks(linear, *format, 1), {});
    return linear.bias.empty() ? product : graph_.node("Add", {product, bias(linear, 1)});
  }
  std::vector<std::string> inputs{input, matrix(linear, false, 1)};
  if (!linear.bias.empty()) inputs.push_back(bias(linear, 1));
  return graph_.node("Gemm", inputs, {{"transB", std::int64_t{1}}});
}

std::string GraphContext::plain_linear(const std::string& input, const Linear& linear, float scale,
                                       std::string_view output) {
  weights_.require(linear.weight, stored_shape_of(linear));
  used_.insert(linear.weight);
  const std::string_view product_name = linear.bias.empty() ? output : std::string_view();
  const std::optional<onnx::BlockFormat> format = block_format(linear);
  // MatMul takes the weight turned.
  const std::string product =
      format ? block_product({.name = input, .rank = 3}, blocks(linear, *format, scale), product_name)
             : graph_.node("MatMul", {input, matrix(linear, true, scale)}, {}, product_name);
  if (linear.bias.empty()) return product;
  return graph_.node("Add", {product, bias(linear, scale)}, {}, output);
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

std::string GraphContext::activated(const std::string& input, checkpoint::Activation activation,
                                    std::string_view output) {
  switch (activation) {
    case checkpoint::Activation::tanh:
      return graph_.node("Tanh", {input}, {}, output);
    case checkpoint::Activation::relu:
      return graph_.node("Relu", {input}, {}, output);
    case checkpoint::Activation::sigmoid:
      return graph_.node("Sigmoid", {input}, {}, output);
    case checkpoint::Activation::gelu:
      return graph_.node("Gelu", {input}, {{"approximate", std::string("none")}}, output);
    case checkpoint::Activation::gelu_tanh:
      return graph_.node("Gelu", {input}, {{"approximate", std::string("tanh")}}, output);
    case checkpoint::Activation::silu:
      return graph_.node("Mul", {input, graph_.node("Sigmoid", {input})}, {}, output);
    case checkpoint::Activation::quick_gelu: {
      constexpr float factor = 1.702F;
      const std::string sigmoid = graph_.node("Sigmoid", {graph_.node("Mul", {input, scalar(factor)})});
      return graph_.node("Mul", {input, sigmoid}, {}, output);
    }
    case checkpoint::Activation::identity:
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
