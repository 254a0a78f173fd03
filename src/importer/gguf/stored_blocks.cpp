#include "importer/gguf/stored_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpux::importer::gguf {
namespace {

using onnx::BlockFormat;
using onnx::BlockMatrix;

bool are_finite(std::span<const float> numbers) {
  return std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); });
}

// A block's minimum as a zero point and the rest. A zero point of 0 would do, too: but products round their other
// factor to 8 bits, and what that loses is least where the elements lie around their zero point. It is 0 where a bit
// would be lost otherwise.
std::uint8_t split_off_zero_point(float& minimum, float scale, int max_value) {
  // Codes of types with minimums have up to 5 bits: their distances from it, times a scale, stay exact.
  constexpr int largest_code = 31;
  max_value = std::min(max_value, largest_code);
  if (scale == 0) return 0;
  const float zero_point = std::clamp(std::round(minimum / scale), 0.0F, static_cast<float>(max_value));
  const float offset = zero_point * scale, rest = minimum - offset;
  const bool is_exact = static_cast<double>(zero_point) * static_cast<double>(scale) == static_cast<double>(offset) &&
                        rest + offset == minimum && minimum - rest == offset;
  if (!is_exact) return 0;
  minimum = rest;
  return static_cast<std::uint8_t>(zero_point);
}

// [rows, blocks], packed row by row.
std::vector<std::uint8_t> split_off_zero_points(BlockMatrix& matrix, std::size_t rows, const BlockFormat& format) {
  std::vector<std::uint8_t> packed;
  const std::size_t blocks = rows == 0 ? 0 : matrix.scales.size() / rows;
  std::vector<std::uint8_t> of_row(blocks);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t block = row * blocks + i;
      of_row[i] = split_off_zero_point(matrix.minimums[block], matrix.scales[block], format.max_value());
    }
    const std::vector<std::uint8_t> stored = format.bits == 4 ? onnx::packed_nibbles(of_row) : of_row;
    packed.insert(packed.end(), stored.begin(), stored.end());
  }
  return packed;
}

}  // namespace

std::optional<BlockFormat> block_format_of(TensorType type) noexcept {
  const CodeFormat& codes = facts_of(type).codes;
  if (codes.group_elements == 0) return std::nullopt;
  return BlockFormat{.bits = static_cast<int>(codes.bits),
                     .block_size = static_cast<std::int64_t>(codes.group_elements),
                     .has_zero_points = codes.has_minimum,
                     .has_minimums = codes.has_minimum};
}

std::optional<BlockMatrix> stored_blocks(TensorType type, std::span<const std::byte> bytes, std::int64_t rows,
                                         std::int64_t columns) {
  const BlockFormat format = block_format_of(type).value_or(BlockFormat());
  const auto elements = static_cast<std::size_t>(rows * columns);
  const std::size_t blocks = elements / static_cast<std::size_t>(format.block_size);
  BlockMatrix matrix;
  std::vector<std::uint8_t> codes(elements);
  matrix.scales.resize(blocks);
  if (format.has_minimums) matrix.minimums.resize(blocks);
  read_codes(type, bytes, codes, matrix.scales, matrix.minimums);
  if (!are_finite(matrix.scales) || !are_finite(matrix.minimums)) return std::nullopt;
  matrix.values = format.bits == 4 ? onnx::packed_nibbles(codes) : std::move(codes);
  if (format.has_minimums) {
    matrix.zero_points = split_off_zero_points(matrix, static_cast<std::size_t>(rows), format);
  }
  return matrix;
}

std::vector<StoredWeights> StorageReport::summary() const {
  std::vector<StoredWeights> lines;
  for (const auto& [type, matrices] : matrices_) {
    const BlockFormat format = block_format_of(type).value_or(BlockFormat());
    lines.push_back({.type = std::string(facts_of(type).name),
                     .matrices = matrices,
                     .bits = format.bits,
                     .block_size = format.block_size});
  }
  return lines;
}

}  // namespace gpux::importer::gguf
