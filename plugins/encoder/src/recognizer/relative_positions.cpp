#include "recognizer/relative_positions.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpux_cpu::encoder {
namespace {

constexpr std::size_t head_axis = 1, query_axis = 2, key_axis = 3;
constexpr double max_breakpoint = 1 << 17;

/// by_query * query + by_key * key + offset.
struct Affine {
  double by_query = 0, by_key = 0, offset = 0;
};

std::optional<Affine> affine_of(const Expression& expression) {
  if (expression.kind == Expression::Kind::literal) return Affine{0, 0, expression.value};
  if (expression.kind == Expression::Kind::axis_index) {
    if (expression.axis == query_axis) return Affine{1, 0, 0};
    return expression.axis == key_axis ? std::optional(Affine{0, 1, 0}) : std::nullopt;
  }
  if (expression.kind != Expression::Kind::apply || expression.element_type == ElementType::boolean)
    return std::nullopt;
  const auto argument = [&](std::size_t i) { return affine_of(*expression.arguments[i]); };
  switch (expression.operation) {
    case Operation::cast:
      return is_integer(expression.arguments[0]->element_type) &&
                     expression.arguments[0]->element_type != ElementType::boolean
                 ? argument(0)
                 : std::nullopt;
    case Operation::negate: {
      const auto a = argument(0);
      return a ? std::optional(Affine{-a->by_query, -a->by_key, -a->offset}) : std::nullopt;
    }
    case Operation::add:
    case Operation::subtract: {
      const auto a = argument(0), b = argument(1);
      if (!a || !b) return std::nullopt;
      const double sign = expression.operation == Operation::add ? 1 : -1;
      return Affine{a->by_query + sign * b->by_query, a->by_key + sign * b->by_key, a->offset + sign * b->offset};
    }
    default:
      return std::nullopt;
  }
}

bool is_of_difference(const Affine& affine) {
  return affine.by_query == -affine.by_key;
}

// The difference of both sides of a comparison, if they are affine.
std::optional<Affine> compared(const Expression& expression) {
  const bool is_comparison =
      expression.is(Operation::equal) || expression.is(Operation::less) || expression.is(Operation::less_or_equal);
  if (!is_comparison) return std::nullopt;
  const auto a = affine_of(*expression.arguments[0]), b = affine_of(*expression.arguments[1]);
  if (!a || !b) return std::nullopt;
  return Affine{a->by_query - b->by_query, a->by_key - b->by_key, a->offset - b->offset};
}

/// What a part of an expression is, as a function of the difference.
enum class Form : std::uint8_t { constants, linear };

// `breakpoint` grows by what moves breakpoints.
std::optional<Form> form_of(const Expression& expression, double& breakpoint) {
  if (const auto affine = affine_of(expression)) {
    if (!is_of_difference(*affine) || std::abs(affine->by_key) > 1) return std::nullopt;
    if (affine->by_key == 0) {
      // Numbers beyond all positions are no breakpoints: values of hidden keys.
      if (std::abs(affine->offset) < max_breakpoint) breakpoint += std::abs(affine->offset);
      return Form::constants;
    }
    breakpoint += std::abs(affine->offset);
    return Form::linear;
  }
  if (const auto difference = compared(expression)) {
    if (!is_of_difference(*difference) || std::abs(difference->by_key) > 1) return std::nullopt;
    breakpoint += std::abs(difference->offset);
    return Form::constants;
  }
  if (expression.kind != Expression::Kind::apply) return std::nullopt;
  std::array<std::optional<Form>, 3> forms;
  for (std::size_t i = 0; i < expression.arguments.size(); ++i) {
    forms.at(i) = form_of(*expression.arguments[i], breakpoint);
    if (!forms.at(i)) return std::nullopt;
  }
  const bool are_constants = std::ranges::all_of(expression.arguments, [&](const ExpressionPointer& one) {
    return forms.at(static_cast<std::size_t>(&one - expression.arguments.data())) == Form::constants;
  });
  switch (expression.operation) {
    case Operation::equal:
    case Operation::less:
    case Operation::less_or_equal:
      return Form::constants;
    case Operation::logical_and:
    case Operation::logical_or:
    case Operation::logical_not:
    case Operation::multiply:
    case Operation::divide:
      return are_constants ? std::optional(Form::constants) : std::nullopt;
    case Operation::where:
      return forms[0] == Form::constants && forms[1] == Form::constants && forms[2] == Form::constants
                 ? std::optional(Form::constants)
                 : std::nullopt;
    case Operation::add:
    case Operation::subtract:
      // A sum of two slopes may have any slope.
      if (are_constants) return Form::constants;
      return forms[0] == Form::linear && forms[1] == Form::linear ? std::nullopt : std::optional(Form::linear);
    case Operation::negate:
    case Operation::absolute:
      return forms[0];
    case Operation::cast:
      if (expression.element_type == ElementType::boolean)
        return are_constants ? std::optional(Form::constants) : std::nullopt;
      return forms[0];
    case Operation::minimum:
    case Operation::maximum:
      return are_constants ? Form::constants : Form::linear;
    default:
      return std::nullopt;
  }
}

// |key - query| times what the head has: linear on both sides of 0.
bool is_scaled_distance(const Expression& expression) {
  if (const auto affine = affine_of(expression)) return is_of_difference(*affine) && affine->offset == 0;
  const auto depends_on_position = [](const Expression& part) {
    return contains(
        part, [](const Expression& one) { return one.kind == Expression::Kind::axis_index && one.axis != head_axis; });
  };
  if (!depends_on_position(expression)) return true;
  if (expression.kind != Expression::Kind::apply) return false;
  switch (expression.operation) {
    case Operation::negate:
    case Operation::absolute:
      return is_scaled_distance(*expression.arguments[0]);
    case Operation::cast:
      return expression.element_type == ElementType::float32 && is_scaled_distance(*expression.arguments[0]);
    case Operation::multiply:
      return (!depends_on_position(*expression.arguments[1]) && is_scaled_distance(*expression.arguments[0])) ||
             (!depends_on_position(*expression.arguments[0]) && is_scaled_distance(*expression.arguments[1]));
    case Operation::divide:
      return !depends_on_position(*expression.arguments[1]) && is_scaled_distance(*expression.arguments[0]);
    default:
      return false;
  }
}

}  // namespace

bool depends_on_difference(const Expression& expression) {
  if (const auto affine = affine_of(expression)) return is_of_difference(*affine);
  if (const auto difference = compared(expression)) return is_of_difference(*difference);
  switch (expression.kind) {
    case Expression::Kind::axis_index:
      return expression.axis == head_axis;
    case Expression::Kind::apply:
    case Expression::Kind::table:
      return std::ranges::all_of(expression.arguments,
                                 [](const ExpressionPointer& one) { return depends_on_difference(*one); });
    default:
      return false;
  }
}

std::optional<double> value_at_difference(const Expression& expression, double head, double difference) {
  const auto [query, key] = QueryAndKey::apart(difference);
  return known_value(expression, std::array{0.0, head, query, key});
}

std::optional<double> last_breakpoint(const Expression& expression) {
  double breakpoint = 0;
  if (!depends_on_difference(expression) || !form_of(expression, breakpoint)) return std::nullopt;
  return breakpoint < max_breakpoint ? std::optional(breakpoint + 2) : std::nullopt;
}

std::optional<VisibleRange> visible_range_of(const Expression& expression, double max_hidden) {
  double ignored = 0;
  const auto bound = last_breakpoint(expression);
  // Values, and no slopes.
  if (!bound || form_of(expression, ignored) != Form::constants) return std::nullopt;
  VisibleRange found;
  std::optional<double> first, last;
  for (double difference = -*bound; difference <= *bound; ++difference) {
    const auto value = value_at_difference(expression, 0, difference);
    if (!value) return std::nullopt;
    if (*value == 0) {
      if (last && *last != difference - 1) return std::nullopt;
      if (!first) first = difference;
      last = difference;
    } else if (*value < max_hidden) {
      found.hidden = *value;
    } else {
      return std::nullopt;
    }
  }
  if (!first || !last) {
    found.is_empty = true;
    return found;
  }
  // A query attends its own token.
  if (*first > 0 || *last < 0) return std::nullopt;
  if (*first > -*bound) found.left = static_cast<std::size_t>(-*first);
  if (*last < *bound) found.right = static_cast<std::size_t>(*last);
  return found;
}

bool is_linear_bias(const Expression& expression, std::size_t num_heads) {
  if (!is_scaled_distance(expression)) return false;
  for (std::size_t head = 0; head < num_heads; ++head) {
    const auto at = [&](double difference) {
      return value_at_difference(expression, static_cast<double>(head), difference);
    };
    const auto one = at(1), back = at(-1), here = at(0), far = at(100), far_back = at(-100);
    if (!one || !back || !far || !far_back || here != 0.0 || *one != *back || *far != *far_back ||
        !(std::abs(*far - 100 * *one) <= 1e-5 * std::abs(*far))) {
      return false;
    }
  }
  return true;
}

std::optional<std::size_t> table_positions(const Expression& expression, std::size_t num_heads) {
  if (expression.kind != Expression::Kind::table || expression.element_type != ElementType::float32)
    return std::nullopt;
  std::int64_t positions = 0, rows = 0;
  for (std::size_t axis = 0; axis < expression.arguments.size(); ++axis) {
    const Expression& at = *expression.arguments[axis];
    if (at.kind == Expression::Kind::literal) continue;
    if (at.kind != Expression::Kind::axis_index) return std::nullopt;
    if (at.axis == query_axis) rows = expression.constant->shape[axis];
    if (at.axis == key_axis) positions = expression.constant->shape[axis];
    if (at.axis == 0 || at.axis > key_axis) return std::nullopt;
  }
  const auto count = static_cast<std::size_t>(std::min(rows, positions));
  for (std::size_t head = 0; head < num_heads; ++head) {
    for (std::size_t query = 0; query < count; ++query) {
      for (std::size_t key = 0; key < count; ++key) {
        const std::array indices{0.0, static_cast<double>(head), static_cast<double>(query), static_cast<double>(key)};
        const auto value = known_value(expression, indices);
        if (!value || value != value_at_difference(expression, static_cast<double>(head),
                                                   static_cast<double>(key) - static_cast<double>(query))) {
          return std::nullopt;
        }
      }
    }
  }
  return count == 0 ? std::nullopt : std::optional(count);
}

}  // namespace gpux_cpu::encoder
