#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpux::onnx {

/// A matrix as signed bytes, symmetric around 0: an element is near values * the scale of its column or row.
struct QuantizedMatrix {
  std::vector<std::int8_t> values;  ///< row by row
  std::vector<float> scales;        ///< one a column, or one a row; a column of zeros has 1
};

/// The largest magnitude that a weight is given. With 8 bits 127; with 7 bits 64, so that two products of an unsigned
/// byte with such a weight add up within 16 bits, as processors without VNNI add them.
constexpr int largest_weight(bool reduce_range) noexcept {
  return reduce_range ? 64 : 127;
}

/// Gives each column of `matrix` [rows, columns] a scale of its own: largest magnitude / largest_weight(), and values
/// rounded to the nearest, halves to even, as ONNX Runtime's quantize_dynamic does per channel. `transposed`: `matrix`
/// is [columns, rows], and is turned on the way. Empty where an element is NaN or infinite.
std::optional<QuantizedMatrix> quantize_columns(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                                                bool transposed, bool reduce_range);

/// Quantizes with a scale for each row: for a table that rows are taken from, whose range is never reduced since
/// nothing is multiplied.
std::optional<QuantizedMatrix> quantize_rows(std::span<const float> matrix, std::size_t rows, std::size_t columns);

}  // namespace gpux::onnx
