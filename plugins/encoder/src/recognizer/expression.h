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

/// A size: a number, or one of those that a batch brings with it.
struct Size {
  enum class Kind : std::uint8_t { number, batch, sequence, rows } kind = Kind::number;  ///< rows: batch * sequence
  std::int64_t number = 0;

  bool operator==(const Size&) const = default;
};

using Shape = std::vector<Size>;

/// The value at an index of a tensor, as far as it follows from the index, from the graph's constants and from its
/// inputs. The functions below build it and evaluate what they can: the rest is in its shortest form.
struct Expression {
  enum class Kind : std::uint8_t {
    number,
    size,   ///< a size of the batch
    place,  ///< along `axis`, 0 or more
    table,  ///< an element of `constant`, at the arguments
    input,  ///< an element of the graph's input `name`, at the arguments
    count,  ///< the first argument, a function of the places 0 and 1, added up to the place (arguments 2 and 3)
    row,    ///< argument 0 times `size`, plus argument 1, which is known to be below `size`
    apply,  ///< `operation` of the arguments
  };
  Kind kind = Kind::number;
  double number = 0;
  Size size;
  std::size_t axis = 0;
  const Constant* constant = nullptr;
  std::string name;
  Operation operation = Operation::add;
  Element element = Element::float32;  ///< of the result
  std::vector<ExpressionPointer> arguments;
  std::size_t parts = 1;  ///< of it and its arguments, and theirs: what it takes to go through it

  [[nodiscard]] bool is(Operation other) const noexcept { return kind == Kind::apply && operation == other; }
};

ExpressionPointer number(double value, Element element);
ExpressionPointer size_of_batch(const Size& size);
ExpressionPointer place(std::size_t axis);
ExpressionPointer input_at(std::string name, std::vector<ExpressionPointer> places);
ExpressionPointer table_at(const Constant& constant, std::vector<ExpressionPointer> places);
ExpressionPointer count_up(ExpressionPointer counted, ExpressionPointer text, ExpressionPointer place);
/// text * length + token: a row of texts of `length` that are put one behind the other. `token` is below `length`.
ExpressionPointer row_of(ExpressionPointer text, const Size& length, ExpressionPointer token);
ExpressionPointer apply(Operation operation, Element element, std::vector<ExpressionPointer> arguments);

[[nodiscard]] std::optional<double> number_of(const ExpressionPointer& expression);
[[nodiscard]] std::optional<Size> size_of(const ExpressionPointer& expression);
[[nodiscard]] bool is_place(const ExpressionPointer& expression, std::size_t axis);
[[nodiscard]] bool same(const Expression& a, const Expression& b);

/// Gives an input's or a count's value instead; null: as it is.
using Replacement = std::function<ExpressionPointer(const Expression& leaf)>;

/// The expression with `places` for its own places (null: as it is) and what `replacement` says for inputs and counts.
ExpressionPointer substitute(const ExpressionPointer& expression, const std::vector<ExpressionPointer>& places,
                             const Replacement& replacement = nullptr);

/// The number that comes out with numbers for places; `leaf` gives inputs and counts. NaN where there is none, such as
/// beyond a table's end.
double evaluate(const Expression& expression, const std::vector<double>& places,
                const std::function<double(const Expression&)>& leaf = nullptr);

/// Whether any part of it is of this kind and pleases `condition`.
[[nodiscard]] bool contains(const Expression& expression, const std::function<bool(const Expression&)>& condition);

/// What is added up in float32.
std::vector<ExpressionPointer> terms_of(const ExpressionPointer& sum);

/// An element of a constant as a number; NaN for elements of other types.
double element_of(const Constant& constant, std::size_t index);

}  // namespace gpux_encoder
