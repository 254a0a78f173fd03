#pragma once

#include <cstdint>

#include "gpux/tensor.h"

namespace gpux::runtime {

/// Copies the elements of the index range [0, sizes) between two tensors of one type and rank, at least 1, whose sizes
/// beyond the first are no smaller than those: from row `from_row` on to row `to_row` on. `to` must be writable; packed
/// types need zeros there.
void copy_corner(const Tensor& from, std::int64_t from_row, Tensor& to, std::int64_t to_row, const Shape& sizes);

}  // namespace gpux::runtime
