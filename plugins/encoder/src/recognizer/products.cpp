// Matrix products with weights, biases and residual sums.
#include <algorithm>
#include <cmath>
#include <utility>

#include "recognizer/attention_products.h"
#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

// The context that rows of [text, token, column] are: all heads side by side.
std::optional<ContextInput> context_of(const ExpressionPointer& rows, std::size_t columns, const KnownFacts& facts) {
  const Expression& leaf = *rows;
  const auto* context = leaf.kind == Expression::Kind::computed ? facts.as<Context>(leaf.computed) : nullptr;
  if (context == nullptr || !facts.is_text(leaf.arguments[0], 0) || !facts.is_token(leaf.arguments[2], 1))
    return std::nullopt;
  const std::size_t head_size = context->value.head_size;
  if (columns != context->scores.num_heads * head_size) return std::nullopt;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::vector<double> indices{std::nan(""), std::nan(""), static_cast<double>(column)};
    const auto head = known_value(*leaf.arguments[1], indices), at = known_value(*leaf.arguments[3], indices);
    const std::size_t head_index = column / head_size, element = column % head_size;
    if (head != static_cast<double>(head_index) || at != static_cast<double>(element)) return std::nullopt;
  }
  return ContextInput{leaf.computed};
}

std::string reason_against(const ExpressionPointer& rows, const KnownFacts& facts) {
  const Expression* leaf = single_computed(*rows);
  if (leaf != nullptr && facts.as<Projection>(leaf->computed) != nullptr)
    return "multiplies the result of something else than an activation";
  return "multiplies something else than hidden states, attention's context or an activated projection";
}

Fact multiplied(const Node& node, const SymbolicTensor& rows, const RecognizedLinear& linear, KnownFacts& facts,
                const Constant* bias) {
  std::string why;
  const auto result = projected(rows, linear, facts, why);
  if (!result) return unknown(node, why);
  if (bias == nullptr) return *result;
  const auto biased = with_bias(*result, *bias, facts);
  return biased ? Fact(*biased) : unknown(node, "has a bias that does not fit");
}

// A constant matrix as it is, or transposed.
std::optional<RecognizedLinear> matrix_of(const SymbolicTensor& tensor) {
  const Expression& at = *tensor.expression;
  if (at.kind != Expression::Kind::table || at.element_type != ElementType::float32 || tensor.shape.size() != 2 ||
      at.constant->shape.size() != 2) {
    return std::nullopt;
  }
  const bool is_transposed = is_axis_index(at.arguments[0], 1) && is_axis_index(at.arguments[1], 0);
  const bool is_plain = is_axis_index(at.arguments[0], 0) && is_axis_index(at.arguments[1], 1);
  const Shape shape{fixed(at.constant->shape[is_transposed ? 1 : 0]), fixed(at.constant->shape[is_transposed ? 0 : 1])};
  if ((!is_plain && !is_transposed) || tensor.shape != shape) return std::nullopt;
  return RecognizedLinear{at.constant, is_transposed, 0, 0, nullptr, 0};
}

Fact matmul(const Node& node, KnownFacts& facts) {
  const bool is_fused = node.type == "FusedMatMul";
  const SymbolicTensor *left = facts.input(node, 0), *right = facts.input(node, 1);
  if (left == nullptr || right == nullptr) return Unknown{};
  if (is_fused && (integer(node, "transA", 0) != 0 || integer(node, "transBatchA", 0) != 0 ||
                   integer(node, "transBatchB", 0) != 0)) {
    return unknown(node, "multiplies transposed rows");
  }
  const float alpha = is_fused ? number(node, "alpha", 1) : 1;
  const bool is_transposed = is_fused && integer(node, "transB", 0) != 0;
  const auto weights = matrix_of(*right);
  const bool is_of_rows = left->shape.size() == 3 || left->shape.size() == 2;
  if (weights && is_of_rows && alpha == 1) {
    RecognizedLinear linear = *weights;
    linear.transposed = linear.transposed != is_transposed;
    linear.columns = static_cast<std::size_t>(linear.weights->shape[linear.transposed ? 0 : 1]);
    return multiplied(node, *left, linear, facts, nullptr);
  }
  SymbolicTensor turned = *right;
  if (is_transposed) {
    if (right->shape.size() < 2) return Unknown{};
    turned = with_last_two_swapped(*right);
  }
  return attention_product(node, *left, turned, static_cast<double>(alpha), facts);
}

Fact gemm(const Node& node, KnownFacts& facts) {
  const SymbolicTensor* rows = facts.input(node, 0);
  const Constant* weights = node.inputs.size() > 1 ? facts.weights(node.inputs[1], 2) : nullptr;
  if (rows == nullptr || weights == nullptr) return Unknown{};
  if (number(node, "alpha", 1) != 1 || number(node, "beta", 1) != 1 || integer(node, "transA", 0) != 0)
    return unknown(node, "multiplies by a factor, or transposed rows");
  const bool is_transposed = integer(node, "transB", 0) != 0;
  const auto columns = static_cast<std::size_t>(weights->shape[is_transposed ? 0 : 1]);
  const Constant* bias = nullptr;
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    bias = facts.weights(node.inputs[2], 1);
    if (bias == nullptr) return unknown(node, "has a bias that does not fit");
  }
  return multiplied(node, *rows, {weights, is_transposed, 0, columns, nullptr, 0}, facts, bias);
}

}  // namespace

std::optional<SymbolicTensor> projected(const SymbolicTensor& tensor, const RecognizedLinear& linear, KnownFacts& facts,
                                        std::string& why) {
  const std::size_t inner = linear.inner();
  if (tensor.shape.empty() || tensor.shape.back() != fixed(static_cast<std::int64_t>(inner))) {
    why = "multiplies rows of another size than its weights need";
    return std::nullopt;
  }
  const auto rows = reshaped(tensor, facts.rows_shape(inner));
  if (!rows) {
    why = "is not over tensors of [batch, sequence, hidden_size]";
    return std::nullopt;
  }
  Projection projection{StreamInput{}, linear};
  if (const auto context = context_of(rows->expression, inner, facts)) {
    projection.input = *context;
  } else if (const auto intermediate = intermediate_of(rows->expression, inner, facts)) {
    projection.input = *intermediate;
  } else if (const auto stream = facts.rows_of(tensor, why)) {
    projection.input = StreamInput{*stream};
  } else {
    if (single_computed(*rows->expression) != nullptr) why = reason_against(rows->expression, facts);
    return std::nullopt;
  }
  const std::size_t index = facts.add(projection);
  Shape shape = tensor.shape;
  shape.back() = fixed(static_cast<std::int64_t>(linear.columns));
  return reshaped(facts.whole_rows(index), shape);
}

std::optional<SymbolicTensor> with_bias(const SymbolicTensor& tensor, const Constant& bias, KnownFacts& facts) {
  const Expression* leaf = single_computed(*tensor.expression);
  const auto* before = leaf == nullptr ? nullptr : facts.as<Projection>(leaf->computed);
  std::string why;
  if (before == nullptr || before->linear.bias != nullptr || bias.count() != before->linear.columns ||
      facts.rows_of(tensor, why) != leaf->computed) {
    return std::nullopt;
  }
  Projection with = *before;
  with.linear.bias = &bias;
  with.linear.first_bias = 0;
  return reshaped(facts.whole_rows(facts.add(with)), tensor.shape);
}

Fact derive_product(const Node& node, KnownFacts& facts) {
  const std::size_t count = node.inputs.size();
  const bool is_microsoft = node.domain == "com.microsoft";
  if (count == 2 && (node.type == "MatMul" || (is_microsoft && node.type == "FusedMatMul"))) return matmul(node, facts);
  if (!is_microsoft && node.type == "Gemm" && count >= 2) return gemm(node, facts);
  return Unknown{};
}

}  // namespace gpux_cpu::encoder
