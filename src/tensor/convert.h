#pragma once

#include "gpux/tensor.h"

namespace gpux {

/// Converts numbers to elements of `type`. The same type gives the same data, shared. Integers (and bool: 0 and 1) take
/// whole numbers that fit, floating types the nearest value, rounded once, ties to even; NaN and the infinities stay
/// what they are where the type has them. Strings and complex numbers are not converted.
/// Error invalid_input for what does not fit, with its place: "[1][2]: 300 does not fit uint8 (0 to 255)".
Tensor convert(const Tensor& tensor, ElementType type);

}  // namespace gpux
