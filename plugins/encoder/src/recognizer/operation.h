#pragma once

#include <cstdint>
#include <span>

#include "recognizer/graph.h"

namespace gpux_encoder {

enum class Operation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  power,
  least,
  greatest,
  equal,
  less,
  less_or_equal,
  both,
  either,
  negate,  ///< of truth
  where,   ///< which of the second and the third the first says
  cast,
  minus,
  magnitude,
  logarithm,
  square_root,
  reciprocal,
  error_function,
  tangent,  ///< hyperbolic
  sigmoid,
  floor,
  is_nan,
  remainder,  ///< of whole numbers that are not negative
};

[[nodiscard]] bool is_integer(Element element);

/// The value of an operation whose arguments are numbers, as ONNX Runtime computes it in `element`. NaN where there is
/// none.
double calculated(Operation operation, Element element, std::span<const double> arguments);

}  // namespace gpux_encoder
