#pragma once

#include <cstddef>
#include <optional>

#include "recognizer/expression.h"

/// Expressions of the indices [text, head, query, key] as functions of the difference key - query.
namespace gpux_cpu::encoder {

/// The indices of a query and a key that are `difference` apart.
struct QueryAndKey {
  double query = 0, key = 0;

  static QueryAndKey apart(double difference) {
    return {difference < 0 ? -difference : 0, difference > 0 ? difference : 0};
  }
};

/// Whether the expression depends on nothing else than the head and the difference.
[[nodiscard]] bool depends_on_difference(const Expression& expression);

/// The value at a difference; empty if it is not known.
[[nodiscard]] std::optional<double> value_at_difference(const Expression& expression, double head, double difference);

/// For an expression of comparisons and piecewise linear functions of the difference: a number beyond which, to both
/// sides, its value is constant or linear. Empty if that is not known.
[[nodiscard]] std::optional<double> last_breakpoint(const Expression& expression);

/// The differences at which an expression is 0, all others being hidden: less than `max_hidden`.
struct VisibleRange {
  std::optional<std::size_t> left, right;  ///< how far before and after the query; empty: all
  bool is_empty = false;                   ///< hidden everywhere
  double hidden = 0;                       ///< a value of hidden positions, if there are any
};

/// Proven for all positions; empty if it is no such expression.
[[nodiscard]] std::optional<VisibleRange> visible_range_of(const Expression& expression, double max_hidden);

/// Slopes of ALiBi: whether the expression is -slope * |key - query| for each head. Proven for all positions.
[[nodiscard]] bool is_linear_bias(const Expression& expression, std::size_t num_heads);

/// For an element of a table at [query, key] (and head): the number of positions of which it is a function of the
/// difference, all that the table has. Empty if it is no such element.
[[nodiscard]] std::optional<std::size_t> table_positions(const Expression& expression, std::size_t num_heads);

}  // namespace gpux_cpu::encoder
