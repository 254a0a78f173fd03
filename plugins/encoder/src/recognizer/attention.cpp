// Attention of single operators: products of queries and keys, softmax, context.
#include <cmath>
#include <utility>
#include <vector>

#include "recognizer/attention_products.h"

namespace gpux_cpu::encoder {
namespace {

bool refers_to_computed(const Expression& expression) {
  return contains(expression, [](const Expression& one) { return one.kind == Expression::Kind::computed; });
}

/// A tensor of [..., rows, columns] as [batch, heads, rows, columns].
struct ByHead {
  ExpressionPointer expression;
  std::size_t num_heads = 0;
};

std::optional<ByHead> by_head(const SymbolicTensor& tensor, const KnownFacts& facts) {
  if (tensor.shape.size() < 3) return std::nullopt;
  std::optional<Dimension> leading = fixed(1);
  for (std::size_t axis = 0; axis + 2 < tensor.shape.size(); ++axis)
    leading = leading ? product_of(*leading, tensor.shape[axis]) : std::nullopt;
  const auto heads = leading ? quotient_of(*leading, facts.batch) : std::nullopt;
  if (!heads || heads->kind != Dimension::Kind::fixed || heads->value < 1) return std::nullopt;
  const auto result =
      reshaped(tensor, {facts.batch, *heads, tensor.shape[tensor.shape.size() - 2], tensor.shape.back()});
  if (!result) return std::nullopt;
  return ByHead{result->expression, static_cast<std::size_t>(heads->value)};
}

// With the leading axes of `leading`.
std::optional<SymbolicTensor> expanded(const SymbolicTensor& tensor, const Shape& leading) {
  Shape wanted = leading;
  wanted.insert(wanted.end(), tensor.shape.end() - 2, tensor.shape.end());
  const auto shape = broadcast(tensor.shape, wanted);
  if (!shape) return std::nullopt;
  return SymbolicTensor{*shape, tensor.element_type, broadcast_to(tensor, shape->size())};
}

ExpressionPointer swapped(const ExpressionPointer& expression) {
  return substitute(expression, {axis_index(0), axis_index(1), axis_index(3), axis_index(2)});
}

struct Operands {
  ByHead left, right;
  Shape leading;
  Dimension rows, inner, columns;
};

std::optional<Operands> operands_of(const SymbolicTensor& left, const SymbolicTensor& right, const KnownFacts& facts) {
  if (left.shape.size() < 3 || right.shape.size() < 2) return std::nullopt;
  const auto leading =
      broadcast(Shape(left.shape.begin(), left.shape.end() - 2), Shape(right.shape.begin(), right.shape.end() - 2));
  const Dimension inner = left.shape.back();
  if (!leading || inner != right.shape[right.shape.size() - 2]) return std::nullopt;
  const auto all_left = expanded(left, *leading), all_right = expanded(right, *leading);
  if (!all_left || !all_right) return std::nullopt;
  const auto a = by_head(*all_left, facts), b = by_head(*all_right, facts);
  if (!a || !b) return std::nullopt;
  return Operands{*a, *b, *leading, left.shape[left.shape.size() - 2], inner, right.shape.back()};
}

SymbolicTensor result_of(const Operands& operands, std::size_t computed, const KnownFacts& facts) {
  const SymbolicTensor all{
      {facts.batch, fixed(static_cast<std::int64_t>(operands.left.num_heads)), operands.rows, operands.columns},
      ElementType::float32,
      computed_element(computed, ElementType::float32, {axis_index(0), axis_index(1), axis_index(2), axis_index(3)})};
  Shape shape = operands.leading;
  shape.push_back(operands.rows);
  shape.push_back(operands.columns);
  return reshaped(all, shape).value_or(all);
}

// The scores whose probabilities an expression is: 0 instead of NaN, where all keys are masked, is allowed.
std::optional<AttentionScores> probabilities_of(const Expression& expression, const KnownFacts& facts) {
  const auto plain = [&](const Expression& leaf) -> const Probabilities* {
    if (leaf.kind != Expression::Kind::computed) return nullptr;
    const auto* found = facts.as<Probabilities>(leaf.computed);
    if (found == nullptr) return nullptr;
    const bool is_head = is_axis_index(leaf.arguments[1], 1) ||
                         (found->scores.num_heads == 1 && literal_value(leaf.arguments[1]) == 0.0);
    const bool is_whole = facts.is_text(leaf.arguments[0], 0) && is_head && facts.is_token(leaf.arguments[2], 2) &&
                          facts.is_token(leaf.arguments[3], 3);
    return is_whole ? found : nullptr;
  };
  if (const auto* whole = plain(expression)) return whole->scores;
  if (!expression.is(Operation::where) || !expression.arguments[0]->is(Operation::is_nan) ||
      literal_value(expression.arguments[1]) != 0.0) {
    return std::nullopt;
  }
  const auto* whole = plain(*expression.arguments[2]);
  if (whole == nullptr || !same(*expression.arguments[0]->arguments[0], *expression.arguments[2])) return std::nullopt;
  AttentionScores scores = whole->scores;
  if (scores.mask) scores.mask->keys.zero_if_all_masked = true;
  return scores;
}

bool refers_to_probabilities(const Expression& expression, const KnownFacts& facts) {
  return contains(expression, [&](const Expression& one) {
    return one.kind == Expression::Kind::computed && facts.as<Probabilities>(one.computed) != nullptr;
  });
}

// A mask of [batch, 1, sequence] times hidden states: their sum.
Fact row_sum(const Node& node, const SymbolicTensor& left, const SymbolicTensor& right, KnownFacts& facts) {
  if (left.shape != Shape{facts.batch, fixed(1), facts.sequence} || right.shape.size() != 3) return Unknown{};
  std::string why;
  const auto rows = facts.rows_of(right, why);
  if (!rows) return Unknown{};
  const auto mask = bits_of(
      SymbolicTensor{{facts.batch, facts.sequence},
                     ElementType::float32,
                     substitute(left.expression, {axis_index(0), literal(0, ElementType::int64), axis_index(1)})},
      facts);
  if (!mask) return unknown(node, "sums rows by something else than a mask");
  const std::size_t sum = facts.add(RowSum{*rows, *mask});
  return SymbolicTensor{{facts.batch, fixed(1), right.shape[2]},
                        ElementType::float32,
                        computed_element(sum, ElementType::float32, {axis_index(0), axis_index(2)})};
}

Fact context(const Node& node, const Operands& operands, double factor, KnownFacts& facts) {
  const auto scores = probabilities_of(*operands.left.expression, facts);
  if (!scores) return unknown(node, "multiplies values by something else than attention probabilities");
  if (operands.columns.kind != Dimension::Kind::fixed) return unknown(node, "multiplies values of another axis order");
  std::string why;
  const auto value = head_vectors_of(operands.right.expression, operands.right.num_heads,
                                     static_cast<std::size_t>(operands.columns.value), facts, why);
  if (!value) return unknown(node, why);
  if (value->rotary || value->norm || value->scale != 1 || factor != 1)
    return unknown(node, "multiplies values that are more than projections of hidden states");
  if (operands.right.num_heads != scores->num_heads)
    return unknown(node, "has another number of heads than its scores");
  return result_of(operands, facts.add(Context{*scores, *value}), facts);
}

Fact scores(const Node& node, const Operands& operands, double factor, KnownFacts& facts) {
  const bool fits = operands.rows == facts.sequence && operands.columns == facts.sequence &&
                    operands.inner.kind == Dimension::Kind::fixed;
  if (!fits) return unknown(node, "multiplies heads that are not queries and keys");
  const auto head_size = static_cast<std::size_t>(operands.inner.value);
  std::string why;
  auto query = head_vectors_of(operands.left.expression, operands.left.num_heads, head_size, facts, why);
  const auto key =
      query ? head_vectors_of(swapped(operands.right.expression), operands.right.num_heads, head_size, facts, why)
            : std::nullopt;
  if (!key) return unknown(node, why);
  if (query->num_heads != operands.left.num_heads) return unknown(node, "repeats the heads of queries");
  query->scale *= factor;
  return result_of(operands, facts.add(Scores{*query, *key, operands.left.num_heads}), facts);
}

// Queries or keys times a table of relative positions.
Fact relative_scores(const Node& node, const Operands& operands, double factor, KnownFacts& facts) {
  const ExpressionPointer table =
      substitute(operands.right.expression, {nullptr, axis_index(0), axis_index(2), axis_index(1)});
  const bool is_table = !contains(*table, [](const Expression& one) {
    return one.kind == Expression::Kind::input || one.kind == Expression::Kind::dimension ||
           one.kind == Expression::Kind::cumulative_sum;
  }) && !contains(*operands.right.expression, [](const Expression& one) {
    return one.kind == Expression::Kind::axis_index && one.axis == 0;
  });
  if (!is_table || operands.inner.kind != Dimension::Kind::fixed || operands.columns.kind != Dimension::Kind::fixed ||
      operands.rows != facts.sequence) {
    return Unknown{};
  }
  std::string why;
  auto vectors = head_vectors_of(operands.left.expression, operands.left.num_heads,
                                 static_cast<std::size_t>(operands.inner.value), facts, why);
  if (!vectors) return unknown(node, why);
  vectors->scale *= factor;
  return result_of(operands,
                   facts.add(RelativeScores{*vectors, operands.left.num_heads,
                                            static_cast<std::size_t>(operands.columns.value), table}),
                   facts);
}

Fact softmax(const Node& node, KnownFacts& facts) {
  const SymbolicTensor* of = facts.input(node, 0);
  if (of == nullptr || !refers_to_computed(*of->expression)) return Unknown{};
  const auto whole = by_head(*of, facts);
  if (!whole) return unknown(node, "is over a tensor of another shape than attention scores");
  // Before version 13, the default was all axes from the second on.
  const std::int64_t axis = integer(node, "axis", node.version < 13 ? 1 : -1);
  if (axis != -1 && axis != static_cast<std::int64_t>(of->shape.size()) - 1)
    return unknown(node, "is not over the keys");
  std::string why;
  auto scores = scores_of(whole->expression, facts, why);
  if (!scores) return unknown(node, why);
  const std::size_t index = facts.add(Probabilities{*std::move(scores)});
  const SymbolicTensor all{
      {facts.batch, fixed(static_cast<std::int64_t>(whole->num_heads)), facts.sequence, facts.sequence},
      ElementType::float32,
      computed_element(index, ElementType::float32, {axis_index(0), axis_index(1), axis_index(2), axis_index(3)})};
  const auto result = reshaped(all, of->shape);
  return result ? Fact(*result) : unknown(node, "is over a tensor of another shape than attention scores");
}

}  // namespace

SymbolicTensor with_last_two_swapped(const SymbolicTensor& tensor) {
  SymbolicTensor result = tensor;
  const std::size_t rank = tensor.shape.size();
  std::swap(result.shape[rank - 1], result.shape[rank - 2]);
  std::vector<ExpressionPointer> indices;
  for (std::size_t axis = 0; axis < rank; ++axis) indices.push_back(axis_index(axis));
  std::swap(indices[rank - 1], indices[rank - 2]);
  result.expression = substitute(tensor.expression, indices);
  return result;
}

Fact attention_product(const Node& node, const SymbolicTensor& left, const SymbolicTensor& right, double factor,
                       KnownFacts& facts) {
  const bool left_is_computed = refers_to_computed(*left.expression),
             right_is_computed = refers_to_computed(*right.expression);
  if (!left_is_computed && right_is_computed && factor == 1) return row_sum(node, left, right, facts);
  if (!left_is_computed) return Unknown{};
  const auto operands = operands_of(left, right, facts);
  if (!operands) return unknown(node, "multiplies tensors whose shapes are not understood");
  if (!right_is_computed) return relative_scores(node, *operands, factor, facts);
  return refers_to_probabilities(*left.expression, facts) ? context(node, *operands, factor, facts)
                                                          : scores(node, *operands, factor, facts);
}

Fact derive_attention(const Node& node, KnownFacts& facts) {
  if (node.domain == "com.microsoft" || node.inputs.empty()) return Unknown{};
  return node.type == "Softmax" ? softmax(node, facts) : Fact(Unknown{});
}

}  // namespace gpux_cpu::encoder
