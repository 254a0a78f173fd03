#pragma once

#include "gpux/tensor.h"

namespace gpux {

/// The same elements in memory of the result's own.
[[nodiscard]] Tensor deep_copy(const Tensor& tensor);

}  // namespace gpux
