#pragma once

#include "gpux/tensor.h"

namespace gpux {

/// A copy with memory of its own.
[[nodiscard]] Tensor deep_copy(const Tensor& tensor);

}  // namespace gpux
