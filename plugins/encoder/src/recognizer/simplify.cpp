#include "recognizer/simplify.h"

#include <cmath>
#include <utility>

namespace gpux_cpu::encoder {
namespace {

constexpr std::size_t max_elements_to_look_at = 4096;

bool is_literal(const ExpressionPointer& expression, double value) {
  return expression->kind == Expression::Kind::literal && expression->value == value;
}

// Sizes and indices are never below 0.
bool is_at_least(const Expression& expression, double least) {
  switch (expression.kind) {
    case Expression::Kind::literal:
      return expression.value >= least;
    case Expression::Kind::dimension:
    case Expression::Kind::axis_index:
      return least <= 0;
    case Expression::Kind::apply:
      return expression.operation == Operation::add && expression.arguments[1]->kind == Expression::Kind::literal &&
             is_at_least(*expression.arguments[0], least - expression.arguments[1]->value);
    case Expression::Kind::table: {
      const Constant& table = *expression.constant;
      bool is_so = is_integer(table.element_type) && table.count() <= max_elements_to_look_at;
      for (std::size_t i = 0; i < table.count() && is_so; ++i) is_so = element_of(table, i) >= least;
      return is_so;
    }
    default:
      return false;
  }
}

ExpressionPointer index_apply(Operation operation, const ExpressionPointer& index, const Dimension& by) {
  return apply(operation, ElementType::int64, {index, dimension_value(by)});
}

// Indices along axes that were merged, divided again.
ExpressionPointer divided_index(const ExpressionPointer& index, const Dimension& by) {
  if (index->kind == Expression::Kind::token_index) {
    const ExpressionPointer &text = index->arguments[0], &token = index->arguments[1];
    if (by == index->dimension) return text;
    if (const auto more = quotient_of(by, index->dimension)) return index_apply(Operation::divide, text, *more);
    if (const auto part = quotient_of(index->dimension, by))
      return token_index(text, *part, index_apply(Operation::divide, token, by));
  }
  if (index->is(Operation::divide) && is_integer(index->element_type)) {
    const auto first = dimension_of(index->arguments[1]);
    const auto both = first ? product_of(*first, by) : std::nullopt;
    if (both) return index_apply(Operation::divide, index->arguments[0], *both);
  }
  return nullptr;
}

ExpressionPointer remaining_index(const ExpressionPointer& index, const Dimension& by) {
  if (by == fixed(1)) return literal(0, ElementType::int64);
  if (index->kind == Expression::Kind::token_index) {
    const ExpressionPointer &text = index->arguments[0], &token = index->arguments[1];
    if (by == index->dimension) return token;
    if (const auto more = quotient_of(by, index->dimension))
      return token_index(index_apply(Operation::remainder, text, *more), index->dimension, token);
    if (quotient_of(index->dimension, by)) return index_apply(Operation::remainder, token, by);
  }
  if (index->is(Operation::remainder)) {
    const auto first = dimension_of(index->arguments[1]);
    if (first && quotient_of(*first, by)) return index_apply(Operation::remainder, index->arguments[0], by);
  }
  return nullptr;
}

}  // namespace

ExpressionPointer shortened(Operation operation, ElementType element_type, std::vector<ExpressionPointer>& x) {
  const bool commutes = operation == Operation::add || operation == Operation::multiply ||
                        operation == Operation::logical_and || operation == Operation::logical_or ||
                        operation == Operation::equal;
  if (commutes && x[0]->kind == Expression::Kind::literal) std::swap(x[0], x[1]);
  switch (operation) {
    case Operation::add:
      if (is_literal(x[1], 0)) return x[0];
      if (is_integer(element_type) && x[1]->kind == Expression::Kind::literal && x[0]->is(Operation::add) &&
          x[0]->arguments[1]->kind == Expression::Kind::literal) {
        return apply(Operation::add, element_type,
                     {x[0]->arguments[0], literal(x[0]->arguments[1]->value + x[1]->value, element_type)});
      }
      return nullptr;
    case Operation::subtract:
      if (is_literal(x[1], 0)) return x[0];
      if (is_integer(element_type) && same(*x[0], *x[1])) return literal(0, element_type);
      if (is_integer(element_type) && x[1]->kind == Expression::Kind::literal) {
        return apply(Operation::add, element_type, {x[0], literal(-x[1]->value, element_type)});
      }
      return nullptr;
    case Operation::multiply: {
      if (is_literal(x[1], 1)) return x[0];
      if (is_integer(element_type) && is_literal(x[1], 0)) return x[1];
      if (!is_integer(element_type)) return nullptr;
      const auto a = dimension_of(x[0]), b = dimension_of(x[1]);
      const auto product = a && b ? product_of(*a, *b) : std::nullopt;
      return product ? dimension_value(*product) : nullptr;
    }
    case Operation::divide: {
      if (is_literal(x[1], 1)) return x[0];
      const auto by = is_integer(element_type) ? dimension_of(x[1]) : std::nullopt;
      if (!by) return nullptr;
      const auto whole = dimension_of(x[0]);
      const auto quotient = whole && by->value >= 0 ? quotient_of(*whole, *by) : std::nullopt;
      return quotient ? dimension_value(*quotient) : divided_index(x[0], *by);
    }
    case Operation::remainder: {
      const auto by = is_integer(element_type) ? dimension_of(x[1]) : std::nullopt;
      return by ? remaining_index(x[0], *by) : nullptr;
    }
    case Operation::equal:
      if (same(*x[0], *x[1])) return literal(1, ElementType::boolean);
      if (x[1]->kind == Expression::Kind::literal && is_at_least(*x[0], std::nextafter(x[1]->value, INFINITY))) {
        return literal(0, ElementType::boolean);
      }
      return nullptr;
    case Operation::less:
      if (x[1]->kind == Expression::Kind::literal && is_at_least(*x[0], x[1]->value)) {
        return literal(0, ElementType::boolean);
      }
      return nullptr;
    case Operation::less_or_equal:
      if (x[0]->kind == Expression::Kind::literal && is_at_least(*x[1], x[0]->value)) {
        return literal(1, ElementType::boolean);
      }
      return nullptr;
    case Operation::logical_and:
      if (is_literal(x[1], 0)) return x[1];
      return x[1]->kind == Expression::Kind::literal ? x[0] : same(*x[0], *x[1]) ? x[0] : nullptr;
    case Operation::logical_or:
      if (is_literal(x[1], 0)) return x[0];
      return x[1]->kind == Expression::Kind::literal ? literal(1, ElementType::boolean)
             : same(*x[0], *x[1])                    ? x[0]
                                                     : nullptr;
    case Operation::where:
      if (x[0]->kind == Expression::Kind::literal) return x[0]->value != 0 ? x[1] : x[2];
      return same(*x[1], *x[2]) ? x[1] : nullptr;
    case Operation::cast: {
      // Integers keep their values in any integer type.
      const bool keeps =
          is_integer(element_type) && element_type != ElementType::boolean && is_integer(x[0]->element_type);
      const bool repeats = x[0]->element_type == element_type;
      return (keeps && x[0]->element_type != ElementType::boolean) || repeats ? x[0] : nullptr;
    }
    default:
      return nullptr;
  }
}

}  // namespace gpux_cpu::encoder
