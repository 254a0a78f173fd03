#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpux::onnx {

/// How ONNX Runtime's MatMulNBits and GatherBlockQuantized store a matrix: blocks of a row's elements share a scale.
struct BlockFormat {
  int bits = 4;                  ///< bits of a value: 4 or 8
  std::int64_t block_size = 32;  ///< elements; a power of two from 16 on
  bool has_zero_points = false;  ///< one for each block; otherwise all are middle_value()
  bool has_minimums = false;     ///< one for each block; rows are whole blocks then

  /// The largest value: 15 or 255.
  [[nodiscard]] int max_value() const noexcept { return (1 << bits) - 1; }

  /// The value that stands for 0 where there are no zero points: 8 or 128.
  [[nodiscard]] int middle_value() const noexcept { return 1 << (bits - 1); }

  /// The last block of a row is filled up.
  [[nodiscard]] std::int64_t blocks_per_row(std::int64_t columns) const noexcept {
    return (columns + block_size - 1) / block_size;
  }

  [[nodiscard]] std::int64_t block_bytes() const noexcept { return block_size * bits / 8; }

  /// Bytes of the zero points of a row. Those of 4 bits are packed as values are.
  [[nodiscard]] std::int64_t zero_point_bytes_per_row(std::int64_t columns) const noexcept {
    return (blocks_per_row(columns) * bits + 7) / 8;
  }

  bool operator==(const BlockFormat&) const = default;
};

/// A matrix [rows, columns]: an element is (value - zero point) * scale - minimum of its block. The weight of x W^T has
/// a row for each output, so that blocks lie along what is summed.
struct BlockMatrix {
  /// [rows, blocks_per_row, block_bytes]. With 4 bits, the first of two values is in the low bits. What fills up a row
  /// has the zero point.
  std::vector<std::uint8_t> values;
  std::vector<float> scales;              ///< [rows, blocks_per_row]; may be negative
  std::vector<std::uint8_t> zero_points;  ///< [rows, zero_point_bytes_per_row]; empty without
  std::vector<float> minimums{};          ///< [rows, blocks_per_row]; empty without
};

/// Rounds a matrix, row by row, to the nearest values; halves away from 0.
/// Without zero points, the scale of a block is m / -middle_value(), where m is its element of the largest magnitude:
/// m has the value 0, as in ggml's Q4_0. With zero points, the values from 0 to max_value() cover the block's range and
/// 0. Scales are numbers of float16, as ggml's, but for very small and large ones: providers may store them as such.
/// There are no minimums. Pure. Empty where an element is NaN or infinite.
std::optional<BlockMatrix> quantize_to_blocks(std::span<const float> matrix, std::int64_t rows, std::int64_t columns,
                                              const BlockFormat& format);

/// The elements of the matrix, [rows, columns]. Pure; `matrix` has the sizes that `format` gives it.
std::vector<float> elements_of(const BlockMatrix& matrix, std::int64_t rows, std::int64_t columns,
                               const BlockFormat& format);

/// Two values of 4 bits each in a byte, the first in the low bits. An odd number of them is filled up with 0.
std::vector<std::uint8_t> packed_nibbles(std::span<const std::uint8_t> values);

}  // namespace gpux::onnx
