#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace gpux_cpu::encoder {

enum class Operation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  power,
  minimum,
  maximum,
  equal,
  less,
  less_or_equal,
  logical_and,
  logical_or,
  logical_not,
  where,  ///< argument 1 where argument 0 is true, else argument 2
  cast,
  negate,
  absolute,
  log,
  sqrt,
  reciprocal,
  erf,
  tanh,
  sigmoid,
  floor,
  ceil,
  round,  ///< to the nearest integer, halves to even
  sign,
  exp,
  softplus,
  cosine,
  sine,
  is_nan,
  remainder,  ///< remainder of non-negative integers
};

[[nodiscard]] bool is_integer(ElementType element_type);

/// The result of an operation as ONNX Runtime computes it in `element_type`; NaN if there is none.
double calculated(Operation operation, ElementType element_type, std::span<const double> arguments);

}  // namespace gpux_cpu::encoder
