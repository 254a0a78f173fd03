#include "onnx/block_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace gpux::onnx {
namespace {

constexpr unsigned nibble_bits = 4, nibble_mask = 15;

struct Range {
  float scale = 0;
  std::uint8_t zero_point = 0;
};

// What is smaller than any normal float has no reciprocal: it counts as zeros.
bool is_tiny(float scale) {
  return std::abs(scale) < std::numeric_limits<float>::min();
}

// To the nearest number of float16, ties to even; of those below its normal numbers to the next larger one, so that the
// values still cover the block. Where a sixteenth or more would be lost, and beyond the largest, it stays.
float rounded_to_half(float scale) {
  constexpr float least = 0x1p-20F, least_normal = 0x1p-14F, most = 65504, step = 0x1p-24F;
  if (!(std::abs(scale) >= least && std::abs(scale) <= most)) return scale;
  if (std::abs(scale) < least_normal) return std::copysign(std::ceil(std::abs(scale) / step) * step, scale);
  constexpr std::uint32_t dropped = 13;  // bits of the fraction
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  const std::uint32_t nearest = bits + (1U << (dropped - 1)) - 1 + (bits >> dropped & 1U);
  return std::bit_cast<float>(nearest >> dropped << dropped);
}

Range symmetric_range(std::span<const float> block, const BlockFormat& format) {
  float extreme = 0;
  for (const float element : block) {
    if (std::abs(element) > std::abs(extreme)) extreme = element;
  }
  return {rounded_to_half(extreme / static_cast<float>(-format.middle_value())),
          static_cast<std::uint8_t>(format.middle_value())};
}

Range range_with_zero_point(std::span<const float> block, const BlockFormat& format) {
  const auto [least, most] = std::minmax_element(block.begin(), block.end());
  const float low = std::min(*least, 0.0F), high = std::max(*most, 0.0F);
  const auto steps = static_cast<float>(format.max_value());
  const float scale = rounded_to_half(high / steps - low / steps);
  if (is_tiny(scale)) return {0, 0};
  const float zero_point = std::clamp(std::round(-low / scale), 0.0F, steps);
  return {scale, static_cast<std::uint8_t>(zero_point)};
}

// Of one block, whose end is filled up with the zero point.
void round_block(std::span<const float> block, const Range& range, const BlockFormat& format,
                 std::span<std::uint8_t> values) {
  std::fill(values.begin(), values.end(), range.zero_point);
  if (range.scale == 0) return;
  const auto most = static_cast<float>(format.max_value());
  const auto zero_point = static_cast<float>(range.zero_point);
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float value = std::round(block[i] / range.scale) + zero_point;
    values[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0F, most));
  }
}

void append_packed(std::vector<std::uint8_t>& bytes, std::span<const std::uint8_t> values, int bits) {
  if (bits == 8) {
    bytes.insert(bytes.end(), values.begin(), values.end());
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const unsigned second = i + 1 < values.size() ? values[i + 1] : 0U;
    bytes.push_back(static_cast<std::uint8_t>(values[i] | second << nibble_bits));
  }
}

std::uint8_t value_at(std::span<const std::uint8_t> bytes, std::size_t index, int bits) {
  if (bits == 8) return bytes[index];
  const unsigned pair = bytes[index / 2];
  return static_cast<std::uint8_t>(index % 2 == 0 ? pair & nibble_mask : pair >> nibble_bits);
}

}  // namespace

std::vector<std::uint8_t> packed_nibbles(std::span<const std::uint8_t> values) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve((values.size() + 1) / 2);
  append_packed(bytes, values, 4);
  return bytes;
}

std::optional<BlockMatrix> quantize_to_blocks(std::span<const float> matrix, std::int64_t rows, std::int64_t columns,
                                              const BlockFormat& format) {
  if (!std::all_of(matrix.begin(), matrix.end(), [](float element) { return std::isfinite(element); })) {
    return std::nullopt;
  }
  const auto width = static_cast<std::size_t>(columns), block_size = static_cast<std::size_t>(format.block_size);
  const auto blocks = static_cast<std::size_t>(format.blocks_per_row(columns));
  const auto row_count = static_cast<std::size_t>(rows);
  BlockMatrix result;
  result.values.reserve(row_count * blocks * static_cast<std::size_t>(format.block_bytes()));
  result.scales.reserve(row_count * blocks);
  std::vector<std::uint8_t> values(block_size), zero_points(blocks);
  for (std::size_t row = 0; row < row_count; ++row) {
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t first = i * block_size;
      const std::span<const float> block = matrix.subspan(row * width + first, std::min(block_size, width - first));
      Range range = format.has_zero_points ? range_with_zero_point(block, format) : symmetric_range(block, format);
      if (is_tiny(range.scale)) range.scale = 0;
      round_block(block, range, format, values);
      append_packed(result.values, values, format.bits);
      result.scales.push_back(range.scale);
      zero_points[i] = range.zero_point;
    }
    if (format.has_zero_points) append_packed(result.zero_points, zero_points, format.bits);
  }
  return result;
}

std::vector<float> elements_of(const BlockMatrix& matrix, std::int64_t rows, std::int64_t columns,
                               const BlockFormat& format) {
  const auto width = static_cast<std::size_t>(columns), block_size = static_cast<std::size_t>(format.block_size);
  const auto blocks = static_cast<std::size_t>(format.blocks_per_row(columns));
  const auto zero_point_bytes = static_cast<std::size_t>(format.zero_point_bytes_per_row(columns));
  std::vector<float> elements;
  elements.reserve(static_cast<std::size_t>(rows) * width);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const std::span<const std::uint8_t> values(matrix.values);
    for (std::size_t column = 0; column < width; ++column) {
      const std::size_t block = row * blocks + column / block_size;
      int zero_point = format.middle_value();
      if (format.has_zero_points) {
        const std::span<const std::uint8_t> of_row(matrix.zero_points);
        zero_point = value_at(of_row.subspan(row * zero_point_bytes), column / block_size, format.bits);
      }
      const int value = value_at(values, row * blocks * block_size + column, format.bits);
      const float element = static_cast<float>(value - zero_point) * matrix.scales[block];
      elements.push_back(format.has_minimums ? element - matrix.minimums[block] : element);
    }
  }
  return elements;
}

}  // namespace gpux::onnx
