#include "importer/graph/position_resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace gpux::importer {
namespace {

// Keys' cubic convolution.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

using Weights = std::vector<std::vector<double>>;  // [to, from]

Weights plain_weights(std::int64_t from, std::int64_t to) {
  constexpr double a = -0.75;  // torch's
  Weights weights(static_cast<std::size_t>(to), std::vector<double>(static_cast<std::size_t>(from)));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const auto first = static_cast<std::int64_t>(std::floor(center)) - 1;
    for (std::int64_t x = first; x < first + 4; ++x) {
      const auto inside = static_cast<std::size_t>(std::clamp(x, std::int64_t{0}, from - 1));
      weights[static_cast<std::size_t>(i)][inside] += cubic(static_cast<double>(x) - center, a);
    }
  }
  return weights;
}

Weights antialias_weights(std::int64_t from, std::int64_t to) {
  constexpr double a = -0.5;  // Pillow's, which torch has with antialias
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double widening = std::max(scale, 1.0);
  const double support = 2 * widening;
  Weights weights(static_cast<std::size_t>(to), std::vector<double>(static_cast<std::size_t>(from)));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = static_cast<std::int64_t>(std::max(0.0, center - support + 0.5));
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): rounds as torch does
    const auto end = std::min(from, static_cast<std::int64_t>(center + support + 0.5));
    std::vector<double>& row = weights[static_cast<std::size_t>(i)];
    double sum = 0;
    for (std::int64_t x = begin; x < end; ++x) {
      row[static_cast<std::size_t>(x)] = cubic((static_cast<double>(x) - center + 0.5) / widening, a);
      sum += row[static_cast<std::size_t>(x)];
    }
    for (double& weight : row) weight /= sum;
  }
  return weights;
}

// [rows, from, size] to [rows, to, size]
std::vector<double> interpolated(const std::vector<double>& values, const Weights& weights, std::size_t from,
                                 std::size_t size) {
  const std::size_t rows = values.size() / (from * size);
  std::vector<double> result(rows * weights.size() * size);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      double* to = result.data() + (row * weights.size() + i) * size;
      for (std::size_t x = 0; x < from; ++x) {
        const double weight = weights[i][x];
        if (weight == 0) continue;
        const double* value = values.data() + (row * from + x) * size;
        for (std::size_t c = 0; c < size; ++c) to[c] += weight * value[c];
      }
    }
  }
  return result;
}

}  // namespace

std::vector<float> resized_positions(const std::vector<float>& positions, std::int64_t from, std::int64_t height,
                                     std::int64_t width, std::int64_t size, PositionResize resize) {
  const bool has_antialias = resize == PositionResize::bicubic_antialias;
  const auto weights = [&](std::int64_t to) {
    return has_antialias ? antialias_weights(from, to) : plain_weights(from, to);
  };
  const std::vector<double> exact(positions.begin(), positions.end());
  const auto side = static_cast<std::size_t>(from), elements = static_cast<std::size_t>(size);
  const std::vector<double> wide = interpolated(exact, weights(width), side, elements);
  // One long row of all columns.
  const std::vector<double> both =
      interpolated(wide, weights(height), side, static_cast<std::size_t>(width) * elements);
  return {both.begin(), both.end()};
}

}  // namespace gpux::importer
