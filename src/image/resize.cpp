#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gpux::image {
namespace {

// Weights are whole numbers of 1/2^22: with 8 bits of a level and 2 for what a cubic overshoots, 32 are full.
constexpr int weight_bits = 32 - 8 - 2;
constexpr std::int32_t half = std::int32_t{1} << (weight_bits - 1);

double triangle(double x) noexcept {
  return std::max(0.0, 1 - std::abs(x));
}

double cubic(double x) noexcept {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// For each pixel of a line that is made, which pixels of the other make it, and by how much.
struct Weights {
  struct Taps {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::size_t weights = 0;  ///< where its weights begin
  };

  std::vector<Taps> taps;
  std::vector<std::int32_t> weights;
  std::int64_t max_taps = 0;
};

Weights weights_of(std::int64_t from, std::int64_t to, std::int64_t first, std::int64_t count, Interpolation mode) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double widening = std::max(scale, 1.0);
  const double support = (mode == Interpolation::bicubic ? 2.0 : 1.0) * widening;
  Weights result;
  std::vector<double> exact;
  for (std::int64_t i = first; i < first + count; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = static_cast<std::int64_t>(std::max(0.0, std::floor(center - support + 0.5)));
    const auto end = std::min(from, static_cast<std::int64_t>(std::floor(center + support + 0.5)));
    exact.clear();
    double sum = 0;
    for (std::int64_t x = begin; x < end; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1 / widening);
      exact.push_back(mode == Interpolation::bicubic ? cubic(distance) : triangle(distance));
      sum += exact.back();
    }
    result.taps.push_back({begin, end - begin, result.weights.size()});
    result.max_taps = std::max(result.max_taps, end - begin);
    for (const double weight : exact) {
      const double scaled = (sum == 0 ? weight : weight / sum) * (std::int32_t{1} << weight_bits);
      result.weights.push_back(static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }
  return result;
}

std::uint8_t level_of(std::int32_t sum) noexcept {
  return static_cast<std::uint8_t>(std::clamp(sum >> weight_bits, 0, 255));
}

template <std::size_t channels>
void resample_row(const std::uint8_t* from, const Weights& weights, std::uint8_t* to) {
  for (const Weights::Taps& taps : weights.taps) {
    std::int32_t sums[channels];
    std::fill_n(sums, channels, half);
    const std::uint8_t* pixel = from + static_cast<std::size_t>(taps.first) * channels;
    const std::int32_t* weight = weights.weights.data() + taps.weights;
    for (std::int64_t i = 0; i < taps.count; ++i, pixel += channels) {
      for (std::size_t c = 0; c < channels; ++c) sums[c] += pixel[c] * weight[i];
    }
    for (std::size_t c = 0; c < channels; ++c) *to++ = level_of(sums[c]);
  }
}

void resample_row(std::size_t channels, const std::uint8_t* from, const Weights& weights, std::uint8_t* to) {
  if (channels == 1) return resample_row<1>(from, weights, to);
  if (channels == 3) return resample_row<3>(from, weights, to);
  resample_row<4>(from, weights, to);
}

}  // namespace

Image resize(const Image& image, Size scaled, const Window& window, Interpolation mode) {
  const Weights across = weights_of(image.width(), scaled.width, window.left, window.size.width, mode);
  const Weights down = weights_of(image.height(), scaled.height, window.top, window.size.height, mode);
  Image result(window.size, image.channels());
  const std::size_t row_bytes = result.row_bytes();

  // Rows made narrow are kept only as long as they are needed: a tall image has many.
  const auto kept = static_cast<std::size_t>(down.max_taps);
  std::vector<std::uint8_t> narrow(kept * row_bytes);
  const auto narrow_row = [&](std::int64_t y) {
    return narrow.data() + static_cast<std::size_t>(y) % kept * row_bytes;
  };
  std::int64_t next = down.taps.front().first;
  std::vector<std::int32_t> sums(row_bytes);
  for (std::int64_t y = 0; y < window.size.height; ++y) {
    const Weights::Taps& taps = down.taps[static_cast<std::size_t>(y)];
    for (; next < taps.first + taps.count; ++next) {
      resample_row(image.channels(), image.row(next), across, narrow_row(next));
    }
    std::fill(sums.begin(), sums.end(), half);
    for (std::int64_t i = 0; i < taps.count; ++i) {
      const std::uint8_t* row = narrow_row(taps.first + i);
      const std::int32_t weight = down.weights[taps.weights + static_cast<std::size_t>(i)];
      for (std::size_t x = 0; x < row_bytes; ++x) sums[x] += row[x] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.row(y), level_of);
  }
  return result;
}

}  // namespace gpux::image
