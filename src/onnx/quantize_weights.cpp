#include "onnx/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpux::onnx {
namespace {

// A NaN does not compare, so that it is looked for by itself.
bool all_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
}

// What is smaller than any normal float has no reciprocal: it counts as zeros.
float scale_of(float magnitude, int most) {
  const float scale = magnitude / static_cast<float>(most);
  return scale < std::numeric_limits<float>::min() ? 1.0F : scale;
}

std::int8_t rounded(float number, float scale, int most) {
  const auto nearest = static_cast<int>(std::lrint(number / scale));
  return static_cast<std::int8_t>(std::clamp(nearest, -most, most));
}

}  // namespace

std::optional<QuantizedMatrix> quantize_columns(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                                                bool transposed, bool reduce_range) {
  if (!all_finite(matrix)) return std::nullopt;
  const int most = largest_weight(reduce_range);
  const auto element = [&](std::size_t row, std::size_t column) {
    return transposed ? matrix[column * rows + row] : matrix[row * columns + column];
  };
  QuantizedMatrix result{std::vector<std::int8_t>(rows * columns), std::vector<float>(columns)};
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      result.scales[column] = std::max(result.scales[column], std::abs(element(row, column)));
    }
  }
  for (float& scale : result.scales) scale = scale_of(scale, most);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      result.values[row * columns + column] = rounded(element(row, column), result.scales[column], most);
    }
  }
  return result;
}

std::optional<QuantizedMatrix> quantize_rows(std::span<const float> matrix, std::size_t rows, std::size_t columns) {
  if (!all_finite(matrix)) return std::nullopt;
  const int most = largest_weight(false);
  QuantizedMatrix result{std::vector<std::int8_t>(rows * columns), std::vector<float>(rows)};
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const float> from = matrix.subspan(row * columns, columns);
    float magnitude = 0;
    for (const float number : from) magnitude = std::max(magnitude, std::abs(number));
    const float scale = result.scales[row] = scale_of(magnitude, most);
    for (std::size_t column = 0; column < columns; ++column) {
      result.values[row * columns + column] = rounded(from[column], scale, most);
    }
  }
  return result;
}

}  // namespace gpux::onnx
