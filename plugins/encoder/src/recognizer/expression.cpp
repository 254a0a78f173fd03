#include "recognizer/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "recognizer/simplify.h"

namespace gpux_cpu::encoder {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

std::size_t flat_index(const Constant& constant, std::span<const double> indices) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const double size = static_cast<double>(constant.shape[i]);
    if (!(indices[i] >= 0 && indices[i] < size) || indices[i] != std::trunc(indices[i])) return SIZE_MAX;
    index = index * static_cast<std::size_t>(constant.shape[i]) + static_cast<std::size_t>(indices[i]);
  }
  return index;
}

ExpressionPointer finished(Expression result) {
  for (const ExpressionPointer& argument : result.arguments) result.node_count += argument->node_count;
  return std::make_shared<const Expression>(std::move(result));
}

}  // namespace

double element_of(const Constant& constant, std::size_t index) {
  switch (constant.element_type) {
    case ElementType::float32:
      return static_cast<double>(static_cast<const float*>(constant.data)[index]);
    case ElementType::int64:
      return static_cast<double>(static_cast<const std::int64_t*>(constant.data)[index]);
    case ElementType::int32:
      return static_cast<const std::int32_t*>(constant.data)[index];
    case ElementType::boolean:
      return static_cast<const std::uint8_t*>(constant.data)[index] != 0 ? 1 : 0;
    case ElementType::other:
    case ElementType::uint8:
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int8:
      break;
  }
  return nothing;
}

ExpressionPointer literal(double value, ElementType element_type) {
  Expression result;
  result.value = value;
  result.element_type = element_type;
  return finished(std::move(result));
}

ExpressionPointer dimension_value(const Dimension& dimension) {
  if (dimension.kind == Dimension::Kind::fixed)
    return literal(static_cast<double>(dimension.value), ElementType::int64);
  Expression result;
  result.kind = Expression::Kind::dimension;
  result.dimension = dimension;
  result.element_type = ElementType::int64;
  return finished(std::move(result));
}

ExpressionPointer axis_index(std::size_t axis) {
  Expression result;
  result.kind = Expression::Kind::axis_index;
  result.axis = axis;
  result.element_type = ElementType::int64;
  return finished(std::move(result));
}

ExpressionPointer input_element(std::string name, std::vector<ExpressionPointer> indices) {
  Expression result;
  result.kind = Expression::Kind::input;
  result.name = std::move(name);
  result.element_type = ElementType::int64;
  result.arguments = std::move(indices);
  return finished(std::move(result));
}

ExpressionPointer table_element(const Constant& constant, std::vector<ExpressionPointer> indices) {
  std::vector<double> known;
  for (const ExpressionPointer& one : indices) {
    if (one->kind == Expression::Kind::literal) known.push_back(one->value);
  }
  if (known.size() == indices.size()) {
    const std::size_t index = flat_index(constant, known);
    return literal(index == SIZE_MAX ? nothing : element_of(constant, index), constant.element_type);
  }
  Expression result;
  result.kind = Expression::Kind::table;
  result.constant = &constant;
  result.element_type = constant.element_type;
  result.arguments = std::move(indices);
  return finished(std::move(result));
}

ExpressionPointer cumulative_sum(ExpressionPointer summand, ExpressionPointer text, ExpressionPointer token) {
  Expression result;
  result.kind = Expression::Kind::cumulative_sum;
  result.element_type = summand->element_type;
  result.arguments = {std::move(summand), std::move(text), std::move(token)};
  return finished(std::move(result));
}

ExpressionPointer token_index(ExpressionPointer text, const Dimension& length, ExpressionPointer token) {
  if (literal_value(text) == 0.0) return token;
  const auto known_text = literal_value(text), known_token = literal_value(token);
  if (known_text && known_token && length.kind == Dimension::Kind::fixed) {
    return literal(*known_text * static_cast<double>(length.value) + *known_token, ElementType::int64);
  }
  // An index that was divided, put together again.
  const bool is_whole = text->is(Operation::divide) && token->is(Operation::remainder) &&
                        dimension_of(text->arguments[1]) == length && dimension_of(token->arguments[1]) == length &&
                        same(*text->arguments[0], *token->arguments[0]);
  if (is_whole) return text->arguments[0];
  Expression result;
  result.kind = Expression::Kind::token_index;
  result.dimension = length;
  result.element_type = ElementType::int64;
  result.arguments = {std::move(text), std::move(token)};
  return finished(std::move(result));
}

ExpressionPointer computed_element(std::size_t computed, ElementType element_type,
                                   std::vector<ExpressionPointer> indices) {
  Expression result;
  result.kind = Expression::Kind::computed;
  result.computed = computed;
  result.element_type = element_type;
  result.arguments = std::move(indices);
  return finished(std::move(result));
}

ExpressionPointer apply(Operation operation, ElementType element_type, std::vector<ExpressionPointer> arguments) {
  std::vector<double> known;
  for (const ExpressionPointer& one : arguments) {
    if (one->kind == Expression::Kind::literal) known.push_back(one->value);
  }
  if (known.size() == arguments.size()) return literal(calculated(operation, element_type, known), element_type);
  if (ExpressionPointer shorter = shortened(operation, element_type, arguments)) return shorter;
  Expression result;
  result.kind = Expression::Kind::apply;
  result.operation = operation;
  result.element_type = element_type;
  result.arguments = std::move(arguments);
  return finished(std::move(result));
}

std::optional<double> literal_value(const ExpressionPointer& expression) {
  if (expression->kind != Expression::Kind::literal) return std::nullopt;
  return expression->value;
}

std::optional<Dimension> dimension_of(const ExpressionPointer& expression) {
  if (expression->kind == Expression::Kind::dimension) return expression->dimension;
  const auto known = literal_value(expression);
  if (!known || std::isnan(*known)) return std::nullopt;
  constexpr double far = 4e18;  // as the ends of slices are
  return Dimension{Dimension::Kind::fixed, static_cast<std::int64_t>(std::clamp(*known, -far, far))};
}

bool is_axis_index(const ExpressionPointer& expression, std::size_t axis) {
  return expression->kind == Expression::Kind::axis_index && expression->axis == axis;
}

bool same(const Expression& a, const Expression& b) {
  if (&a == &b) return true;
  const bool alike = a.kind == b.kind && a.element_type == b.element_type && a.dimension == b.dimension &&
                     a.axis == b.axis && a.constant == b.constant && a.name == b.name && a.computed == b.computed &&
                     a.arguments.size() == b.arguments.size() &&
                     (a.kind != Expression::Kind::apply || a.operation == b.operation) &&
                     (a.kind != Expression::Kind::literal || a.value == b.value);
  return alike && std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(),
                             [](const auto& x, const auto& y) { return same(*x, *y); });
}

ExpressionPointer substitute(const ExpressionPointer& expression, const std::vector<ExpressionPointer>& indices,
                             const Replacement& replacement) {
  const Expression& from = *expression;
  switch (from.kind) {
    case Expression::Kind::literal:
    case Expression::Kind::dimension:
      return expression;
    case Expression::Kind::axis_index:
      return from.axis < indices.size() && indices[from.axis] != nullptr ? indices[from.axis] : expression;
    default:
      break;
  }
  std::vector<ExpressionPointer> arguments;
  const bool is_sum = from.kind == Expression::Kind::cumulative_sum;
  for (const ExpressionPointer& argument : from.arguments) {
    // The summand has axis indices of its own.
    arguments.push_back(is_sum && arguments.empty() ? argument : substitute(argument, indices, replacement));
  }
  ExpressionPointer result;
  if (from.kind == Expression::Kind::table) return table_element(*from.constant, std::move(arguments));
  if (from.kind == Expression::Kind::apply) return apply(from.operation, from.element_type, std::move(arguments));
  if (from.kind == Expression::Kind::token_index) return token_index(arguments[0], from.dimension, arguments[1]);
  if (from.kind == Expression::Kind::computed) {
    result = computed_element(from.computed, from.element_type, std::move(arguments));
  } else {
    result = is_sum ? cumulative_sum(arguments[0], arguments[1], arguments[2])
                    : input_element(from.name, std::move(arguments));
  }
  const ExpressionPointer instead = replacement == nullptr ? nullptr : replacement(*result);
  return instead == nullptr ? result : instead;
}

double evaluate(const Expression& expression, const std::vector<double>& indices,
                const std::function<double(const Expression&)>& leaf) {
  switch (expression.kind) {
    case Expression::Kind::literal:
      return expression.value;
    case Expression::Kind::dimension:
      return nothing;
    case Expression::Kind::token_index: {
      if (expression.dimension.kind != Dimension::Kind::fixed) return nothing;
      return evaluate(*expression.arguments[0], indices, leaf) * static_cast<double>(expression.dimension.value) +
             evaluate(*expression.arguments[1], indices, leaf);
    }
    case Expression::Kind::axis_index:
      return expression.axis < indices.size() ? indices[expression.axis] : nothing;
    case Expression::Kind::input:
    case Expression::Kind::cumulative_sum:
    case Expression::Kind::computed:
      return leaf == nullptr ? nothing : leaf(expression);
    default:
      break;
  }
  std::array<double, 8> scratch{};
  const std::span<double> arguments = std::span(scratch).first(std::min(scratch.size(), expression.arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = evaluate(*expression.arguments[i], indices, leaf);
  if (expression.kind == Expression::Kind::apply)
    return calculated(expression.operation, expression.element_type, arguments);
  const std::size_t index = flat_index(*expression.constant, arguments);
  return index == SIZE_MAX ? nothing : element_of(*expression.constant, index);
}

std::optional<double> known_value(const Expression& expression, std::span<const double> indices) {
  const auto finite = [](double value) { return std::isnan(value) ? std::nullopt : std::optional(value); };
  switch (expression.kind) {
    case Expression::Kind::literal:
      return finite(expression.value);
    case Expression::Kind::axis_index:
      return expression.axis < indices.size() ? finite(indices[expression.axis]) : std::nullopt;
    case Expression::Kind::table:
    case Expression::Kind::apply:
    case Expression::Kind::token_index:
      break;
    default:
      return std::nullopt;
  }
  if (expression.is(Operation::where)) {
    const auto condition = known_value(*expression.arguments[0], indices);
    if (!condition) return std::nullopt;
    return known_value(*expression.arguments[*condition != 0 ? 1 : 2], indices);
  }
  std::array<double, 8> scratch{};
  if (expression.arguments.size() > scratch.size()) return std::nullopt;
  const std::span<double> arguments = std::span(scratch).first(expression.arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto argument = known_value(*expression.arguments[i], indices);
    if (!argument) return std::nullopt;
    arguments[i] = *argument;
  }
  if (expression.kind == Expression::Kind::token_index) {
    if (expression.dimension.kind != Dimension::Kind::fixed) return std::nullopt;
    return arguments[0] * static_cast<double>(expression.dimension.value) + arguments[1];
  }
  if (expression.kind == Expression::Kind::apply)
    return finite(calculated(expression.operation, expression.element_type, arguments));
  const std::size_t index = flat_index(*expression.constant, arguments);
  return index == SIZE_MAX ? std::nullopt : finite(element_of(*expression.constant, index));
}

bool contains(const Expression& expression, const std::function<bool(const Expression&)>& condition) {
  return condition(expression) || std::ranges::any_of(expression.arguments, [&](const ExpressionPointer& argument) {
           return contains(*argument, condition);
         });
}

std::vector<ExpressionPointer> terms_of(const ExpressionPointer& sum) {
  if (!sum->is(Operation::add) || sum->element_type != ElementType::float32) return {sum};
  std::vector<ExpressionPointer> terms;
  for (const ExpressionPointer& argument : sum->arguments) {
    const std::vector<ExpressionPointer> inner = terms_of(argument);
    terms.insert(terms.end(), inner.begin(), inner.end());
  }
  return terms;
}

}  // namespace gpux_cpu::encoder
