#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recognizer/graph.h"
#include "recognizer/operation.h"

namespace gpux_encoder {

struct Expression;
using ExpressionPointer = std::shared_ptr<const Expression>;

/// A dimension of a shape: a fixed size, or one that is known only at run time. tokens: batch * sequence.
struct Dimension {
  enum class Kind : std::uint8_t { fixed, batch, sequence, tokens } kind = Kind::fixed;
  std::int64_t value = 0;  ///< of a fixed one

  bool operator==(const Dimension&) const = default;
};

inline Dimension fixed(std::int64_t size) {
  return {Dimension::Kind::fixed, size};
}

using Shape = std::vector<Dimension>;

/// The value of an element of a tensor as a function of the element's index, the graph's constants and its inputs. The
/// functions below build expressions, evaluate what is known, and simplify the rest.
struct Expression {
  enum class Kind : std::uint8_t {
    literal,         ///< `value`
    dimension,       ///< the size `dimension`, known at run time
    axis_index,      ///< the element's index along `axis`
    table,           ///< the element of `constant` whose indices are the arguments
    input,           ///< the element of the graph's input `name` whose indices are the arguments
    cumulative_sum,  ///< of argument 0, a function of the axis indices 0 and 1, up to the text and token of arguments 1
                     ///< and 2
    token_index,     ///< argument 0 * `dimension` + argument 1, which is below `dimension`
    apply,           ///< `operation` of the arguments
  };
  Kind kind = Kind::literal;
  double value = 0;
  Dimension dimension;
  std::size_t axis = 0;
  const Constant* constant = nullptr;
  std::string name;
  Operation operation = Operation::add;
  ElementType element_type = ElementType::float32;  ///< of the result
  std::vector<ExpressionPointer> arguments;
  std::size_t node_count = 1;  ///< of the expression tree

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
ExpressionPointer apply(Operation operation, ElementType element_type, std::vector<ExpressionPointer> arguments);

[[nodiscard]] std::optional<double> literal_value(const ExpressionPointer& expression);
[[nodiscard]] std::optional<Dimension> dimension_of(const ExpressionPointer& expression);
[[nodiscard]] bool is_axis_index(const ExpressionPointer& expression, std::size_t axis);
[[nodiscard]] bool same(const Expression& a, const Expression& b);

/// Gives a replacement for an input or a cumulative sum; null: none.
using Replacement = std::function<ExpressionPointer(const Expression& leaf)>;

/// The expression with `indices` in place of its axis indices (null: unchanged), and replaced inputs and cumulative
/// sums.
ExpressionPointer substitute(const ExpressionPointer& expression, const std::vector<ExpressionPointer>& indices,
                             const Replacement& replacement = nullptr);

/// The value at an element; `leaf` gives the values of inputs and cumulative sums. NaN if it is not known, such as
/// beyond a table's end.
double evaluate(const Expression& expression, const std::vector<double>& indices,
                const std::function<double(const Expression&)>& leaf = nullptr);

/// Whether `condition` is true for any node of the expression tree.
[[nodiscard]] bool contains(const Expression& expression, const std::function<bool(const Expression&)>& condition);

/// The terms of a sum in float32.
std::vector<ExpressionPointer> terms_of(const ExpressionPointer& sum);

/// An element of a constant as a number; NaN for elements of other types.
double element_of(const Constant& constant, std::size_t index);

}  // namespace gpux_encoder
