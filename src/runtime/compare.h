#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gpux/tensor.h"

namespace gpux::runtime {

/// An element is within the tolerance if |got - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

using ToleranceOf = std::function<Tolerance(ElementType)>;

/// Tolerance between two providers that both compute a model correctly: they add in different orders and may keep sums
/// in the element's own precision. Some units in the last place of the floating types; integers, bools and strings
/// exactly.
Tolerance provider_tolerance(ElementType type);

/// Tolerance of the ONNX project's own test runner, for its cases, whose expected values are exact.
Tolerance suite_tolerance(ElementType type);

/// How far two values are apart. Sequences and maps count all their tensors together.
struct Difference {
  double max_absolute = 0;  ///< infinite where one is finite and the other is not
  double max_relative =
      0;  ///< largest relative difference of elements whose expected value is neither 0 nor NaN nor infinite
  double cosine = 1;             ///< cosine over all finite pairs of numbers; 1 if both vectors are zero, 0 if one is
  std::uint64_t elements = 0;    ///< compared
  std::uint64_t mismatches = 0;  ///< elements beyond the tolerance
  bool within = true;            ///< no mismatch, and kinds, types, shapes and keys agree
  std::string reason;            ///< empty where within: one sentence, the first element that differs with its place
};

/// NaN equals NaN, an infinity the same infinity. Pure; complex tensors are never within.
Difference compare(const Value& expected, const Value& got, const ToleranceOf& tolerance);

}  // namespace gpux::runtime
