#include "recognizer/simplify.h"

#include <cmath>
#include <utility>

namespace gpux_encoder {
namespace {

constexpr std::size_t max_elements_to_look_at = 4096;

bool is_number(const ExpressionPointer& expression, double value) {
  return expression->kind == Expression::Kind::number && expression->number == value;
}

// Sizes and places are never below 0.
bool is_at_least(const Expression& expression, double least) {
  switch (expression.kind) {
    case Expression::Kind::number:
      return expression.number >= least;
    case Expression::Kind::size:
    case Expression::Kind::place:
      return least <= 0;
    case Expression::Kind::apply:
      return expression.operation == Operation::add && expression.arguments[1]->kind == Expression::Kind::number &&
             is_at_least(*expression.arguments[0], least - expression.arguments[1]->number);
    case Expression::Kind::table: {
      const Constant& table = *expression.constant;
      bool is_so = is_integer(table.element) && table.count() <= max_elements_to_look_at;
      for (std::size_t i = 0; i < table.count() && is_so; ++i) is_so = element_of(table, i) >= least;
      return is_so;
    }
    default:
      return false;
  }
}

bool is_row_of(const Expression& expression, const ExpressionPointer& length) {
  return expression.kind == Expression::Kind::row && size_of(length) == expression.size;
}

}  // namespace

ExpressionPointer shortened(Operation operation, Element element, std::vector<ExpressionPointer>& x) {
  const bool commutes = operation == Operation::add || operation == Operation::multiply ||
                        operation == Operation::both || operation == Operation::either || operation == Operation::equal;
  if (commutes && x[0]->kind == Expression::Kind::number) std::swap(x[0], x[1]);
  switch (operation) {
    case Operation::add:
      if (is_number(x[1], 0)) return x[0];
      if (is_integer(element) && x[1]->kind == Expression::Kind::number && x[0]->is(Operation::add) &&
          x[0]->arguments[1]->kind == Expression::Kind::number) {
        return apply(Operation::add, element,
                     {x[0]->arguments[0], number(x[0]->arguments[1]->number + x[1]->number, element)});
      }
      return nullptr;
    case Operation::subtract:
      if (is_number(x[1], 0)) return x[0];
      if (is_integer(element) && x[1]->kind == Expression::Kind::number) {
        return apply(Operation::add, element, {x[0], number(-x[1]->number, element)});
      }
      return nullptr;
    case Operation::multiply: {
      if (is_number(x[1], 1)) return x[0];
      if (is_integer(element) && is_number(x[1], 0)) return x[1];
      const auto a = size_of(x[0]), b = size_of(x[1]);
      using Kind = Size::Kind;
      if (a && b &&
          ((a->kind == Kind::batch && b->kind == Kind::sequence) ||
           (a->kind == Kind::sequence && b->kind == Kind::batch))) {
        return size_of_batch({Kind::rows, 0});
      }
      return nullptr;
    }
    case Operation::divide:
      if (is_integer(element) && is_row_of(*x[0], x[1])) return x[0]->arguments[0];
      return is_number(x[1], 1) ? x[0] : nullptr;
    case Operation::remainder:
      return is_row_of(*x[0], x[1]) ? x[0]->arguments[1] : nullptr;
    case Operation::equal:
      if (same(*x[0], *x[1])) return number(1, Element::boolean);
      if (x[1]->kind == Expression::Kind::number && is_at_least(*x[0], std::nextafter(x[1]->number, INFINITY))) {
        return number(0, Element::boolean);
      }
      return nullptr;
    case Operation::less:
      if (x[1]->kind == Expression::Kind::number && is_at_least(*x[0], x[1]->number)) {
        return number(0, Element::boolean);
      }
      return nullptr;
    case Operation::less_or_equal:
      if (x[0]->kind == Expression::Kind::number && is_at_least(*x[1], x[0]->number)) {
        return number(1, Element::boolean);
      }
      return nullptr;
    case Operation::both:
      if (is_number(x[1], 0)) return x[1];
      return x[1]->kind == Expression::Kind::number ? x[0] : same(*x[0], *x[1]) ? x[0] : nullptr;
    case Operation::either:
      if (is_number(x[1], 0)) return x[0];
      return x[1]->kind == Expression::Kind::number ? number(1, Element::boolean) : same(*x[0], *x[1]) ? x[0] : nullptr;
    case Operation::where:
      if (x[0]->kind == Expression::Kind::number) return x[0]->number != 0 ? x[1] : x[2];
      return same(*x[1], *x[2]) ? x[1] : nullptr;
    case Operation::cast: {
      // Whole numbers stay what they are, whatever their width.
      const bool keeps = is_integer(element) && element != Element::boolean && is_integer(x[0]->element);
      const bool repeats = x[0]->element == element;
      return (keeps && x[0]->element != Element::boolean) || repeats ? x[0] : nullptr;
    }
    default:
      return nullptr;
  }
}

}  // namespace gpux_encoder
