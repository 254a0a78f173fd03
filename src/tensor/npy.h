#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpux/tensor.h"

namespace gpux {

/// Reads a NumPy .npy file (format 1, 2 or 3; C or Fortran order; little or big endian): bool, integers, float16 to
/// float64, and strings ('U', and 'S' as bytes; NumPy drops zero characters at the end).
/// With a `declared` type the elements are converted to it as convert() does, and raw elements ('V1', 'V2', as NumPy
/// saves ml_dtypes' arrays) are taken for it: 16-bit and 8-bit floats as they are, the 4-bit and 2-bit types from one
/// byte each. Without one raw elements are refused, as are structured, object, complex, long double and time types.
///
/// With an `owner` that keeps `file` alive the tensor refers to `file` where the data can be used as it lies; else it
/// is copied. Error invalid_input for anything that is not as the format says, also for bytes behind the array.
Tensor read_npy(std::span<const std::byte> file, std::optional<ElementType> declared = std::nullopt,
                std::shared_ptr<const void> owner = nullptr);

/// Appends the tensor as a .npy file (format 1, C order, little endian). Strings become 'U', or 'S' where one of them
/// is not UTF-8. Types that NumPy has not become raw 'V2' or 'V1' as ml_dtypes' arrays do, 4-bit and 2-bit elements
/// one to a byte: `numpy.load(f).view(ml_dtypes.bfloat16)` gives them back.
/// Error invalid_input for complex types and for strings that end in a zero character, which NumPy would drop;
/// resource_exhausted where strings padded to the longest would take more than 1 GiB.
void append_npy(std::string& out, const Tensor& tensor);

/// Appends what stands before the elements in such a file, for one that is written piece by piece: a multiple of 64
/// bytes. `type` has to be one whose elements lie there as in memory.
void append_npy_header(std::string& out, ElementType type, const Shape& shape);

}  // namespace gpux
