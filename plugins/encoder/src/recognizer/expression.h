#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "recognizer/dimension.h"
#include "recognizer/operation.h"

namespace gpux_cpu::encoder {

struct Expression;
using ExpressionPointer = std::shared_ptr<const Expression>;

/// The value of an element of a tensor as a function of the element's index, the graph's constants and its inputs. The
/// functions below build expressions, evaluate what is known, and simplify the rest.
struct Expression {
  enum class Kind : std::uint8_t {
    literal,         ///< `value`
    dimension,       ///< the size `dimension`, known at run time
    axis_index,      ///< the element's index along `axis`
    table,           ///< the element of `constant` whose indices are the arguments
    input,           ///< the element of the graph's input `name` whose indices are the arguments
    cumulative_sum,  ///< cumulative sum of argument 0, a function of the axis indices 0 and 1, up to the text and token
                     ///< of arguments 1 and 2
    token_index,     ///< argument 0 * `dimension` + argument 1, which is below `dimension`
    computed,        ///< the element of the computed value `computed` whose indices are the arguments
    apply,           ///< `operation` of the arguments
  };
  Kind kind = Kind::literal;
  double value = 0;
  Dimension dimension;
  std::size_t axis = 0;
  const Constant* constant = nullptr;
  std::string name;
  std::size_t computed = 0;  ///< index of a computed value (recognizer/computed.h)
  Operation operation = Operation::add;
  ElementType element_type = ElementType::float32;  ///< element type of the result
  std::vector<ExpressionPointer> arguments;
  std::size_t node_count = 1;  ///< nodes of the expression tree

  [[nodiscard]] bool is(Operation other) const noexcept { return kind == Kind::apply && operation == other; }
};

ExpressionPointer literal(double value, ElementType element_type);
ExpressionPointer dimension_value(const Dimension& dimension);
ExpressionPointer axis_index(std::size_t axis);
ExpressionPointer input_element(std::string name, std::vector<ExpressionPointer> indices);
ExpressionPointer table_element(const Constant& constant, std::vector<ExpressionPointer> indices);
ExpressionPointer cumulative_sum(ExpressionPointer summand, ExpressionPointer text, ExpressionPointer token);
/// text * length + token: the index of a token in texts of `length`, one after the other. `token` is below `length`.
ExpressionPointer token_index(ExpressionPointer text, const Dimension& length, ExpressionPointer token);
ExpressionPointer computed_element(std::size_t computed, ElementType element_type,
                                   std::vector<ExpressionPointer> indices);
ExpressionPointer apply(Operation operation, ElementType element_type, std::vector<ExpressionPointer> arguments);

[[nodiscard]] std::optional<double> literal_value(const ExpressionPointer& expression);
[[nodiscard]] std::optional<Dimension> dimension_of(const ExpressionPointer& expression);
[[nodiscard]] bool is_axis_index(const ExpressionPointer& expression, std::size_t axis);
[[nodiscard]] bool same(const Expression& a, const Expression& b);

/// Gives a replacement for an input, a cumulative sum or a computed value; null: none.
using Replacement = std::function<ExpressionPointer(const Expression& leaf)>;

/// The expression with `indices` in place of its axis indices (null: unchanged), and replaced inputs, cumulative sums
/// and computed values.
ExpressionPointer substitute(const ExpressionPointer& expression, const std::vector<ExpressionPointer>& indices,
                             const Replacement& replacement = nullptr);

/// The value at an element; `leaf` gives the values of inputs, cumulative sums and computed values. NaN if it is not
/// known, such as beyond a table's end. Comparisons with NaN are false: where an index may be unknown, use known_value.
double evaluate(const Expression& expression, const std::vector<double>& indices,
                const std::function<double(const Expression&)>& leaf = nullptr);

/// The value at an element some of whose indices are unknown (NaN), and that depends on no input; empty unless it is
/// the same for all values of the unknown indices.
[[nodiscard]] std::optional<double> known_value(const Expression& expression, std::span<const double> indices);

/// Whether `condition` is true for any node of the expression tree.
[[nodiscard]] bool contains(const Expression& expression, const std::function<bool(const Expression&)>& condition);

/// The terms of a sum in float32.
std::vector<ExpressionPointer> terms_of(const ExpressionPointer& sum);

/// An element of a constant as a number; NaN for elements of other types.
double element_of(const Constant& constant, std::size_t index);

}  // namespace gpux_cpu::encoder
