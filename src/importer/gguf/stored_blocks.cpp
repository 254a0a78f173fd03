#include "importer/gguf/stored_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace gpux::importer::gguf {
namespace {

using onnx::BlockFormat;
using onnx::BlockMatrix;

std::optional<BlockMatrix> same_codes(TensorType type, std::span<const std::byte> bytes, std::size_t elements) {
  const CodeFormat& format = facts_of(type).codes;
  BlockMatrix matrix;
  std::vector<std::uint8_t> codes(elements);
  matrix.scales.resize(elements / format.group_elements);
  read_codes(type, bytes, codes, matrix.scales, {});
  if (!std::ranges::all_of(matrix.scales, [](float scale) { return std::isfinite(scale); })) return std::nullopt;
  matrix.values = format.bits == 4 ? onnx::packed_nibbles(codes) : std::move(codes);
  return matrix;
}

void append(BlockMatrix& matrix, const BlockMatrix& more) {
  matrix.values.insert(matrix.values.end(), more.values.begin(), more.values.end());
  matrix.scales.insert(matrix.scales.end(), more.scales.begin(), more.scales.end());
  matrix.zero_points.insert(matrix.zero_points.end(), more.zero_points.begin(), more.zero_points.end());
}

std::optional<BlockMatrix> rounded(TensorType type, std::span<const std::byte> bytes, std::int64_t rows,
                                   std::int64_t columns, const BlockFormat& format, RoundingLoss& loss) {
  BlockMatrix matrix;
  const std::size_t row_bytes = rows == 0 ? 0 : bytes.size() / static_cast<std::size_t>(rows);
  std::vector<float> elements(static_cast<std::size_t>(columns));
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    read_elements(type, bytes.subspan(row * row_bytes, row_bytes), elements);
    const std::optional<BlockMatrix> made = onnx::quantize_to_blocks(elements, 1, columns, format);
    if (!made) return std::nullopt;
    const std::vector<float> kept = onnx::elements_of(*made, 1, columns, format);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const double error = static_cast<double>(kept[i]) - static_cast<double>(elements[i]);
      loss.squared_error += error * error;
      loss.squared_elements += static_cast<double>(elements[i]) * static_cast<double>(elements[i]);
    }
    append(matrix, *made);
  }
  return matrix;
}

}  // namespace

std::optional<BlockFormat> block_format_of(TensorType type) noexcept {
  const CodeFormat& codes = facts_of(type).codes;
  if (codes.group_elements == 0) return std::nullopt;
  const auto group = static_cast<std::int64_t>(codes.group_elements);
  if (!codes.has_minimum) return BlockFormat{.bits = static_cast<int>(codes.bits), .block_size = group};
  return BlockFormat{.bits = 8, .block_size = group, .has_zero_points = true};
}

std::optional<BlockMatrix> stored_blocks(TensorType type, std::span<const std::byte> bytes, std::int64_t rows,
                                         std::int64_t columns, RoundingLoss& loss) {
  const BlockFormat format = block_format_of(type).value_or(BlockFormat());
  if (format.has_zero_points) return rounded(type, bytes, rows, columns, format, loss);
  return same_codes(type, bytes, static_cast<std::size_t>(rows * columns));
}

void StorageReport::add(TensorType type, const RoundingLoss& loss) {
  OfType& of_type = types_[type];
  ++of_type.matrices;
  of_type.loss.squared_error += loss.squared_error;
  of_type.loss.squared_elements += loss.squared_elements;
}

std::vector<StoredWeights> StorageReport::summary() const {
  std::vector<StoredWeights> lines;
  for (const auto& [type, found] : types_) {
    const BlockFormat format = block_format_of(type).value_or(BlockFormat());
    const double elements = found.loss.squared_elements;
    lines.push_back({.type = std::string(facts_of(type).name),
                     .matrices = found.matrices,
                     .bits = format.bits,
                     .block_size = format.block_size,
                     .relative_error = elements == 0 ? 0 : std::sqrt(found.loss.squared_error / elements)});
  }
  return lines;
}

}  // namespace gpux::importer::gguf
