// Row operations in plain C++ that the compiler vectorizes for the instruction set of the including source.
#include <cstddef>
#include <cstdint>

#include "block_kernels/block_kernels.h"
#include "kernels/exponential.h"

namespace gpux_decoder {
namespace {

void quantize_row(const float* values, std::size_t count, std::size_t block_size, std::int8_t* bytes, float* scale,
                  std::int32_t* sum) noexcept {
  for (std::size_t first = 0; first < count; first += block_size) {
    const std::size_t own = count - first < block_size ? count - first : block_size;
    // As integers, the magnitudes of NaNs are the largest, then those of infinities.
    std::int32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (std::size_t i = 0; i < own; ++i) {
      const std::int32_t magnitude = __builtin_bit_cast(std::int32_t, values[first + i]) & 0x7FFFFFFF;
      largest = magnitude > largest ? magnitude : largest;
    }
    const bool is_finite = largest < 0x7F800000;
    const float magnitude = __builtin_bit_cast(float, largest);
    // Smaller ones are 0: the inverse of their step would be infinite.
    const bool is_zero = !is_finite || magnitude < 1e-30F;
    const float steps = is_zero ? 0 : 127.0F / magnitude;
    *scale++ = is_finite ? magnitude / 127.0F : __builtin_nanf("");
    constexpr float rounding = 12582912.0F;  // 1.5 * 2^23: adding and taking it away rounds to a whole number
    std::int32_t total = 0;
    if (is_zero) {
      for (std::size_t i = 0; i < own; ++i) bytes[i] = 0;
    } else {
#pragma omp simd reduction(+ : total)
      for (std::size_t i = 0; i < own; ++i) {
        const auto step = static_cast<std::int32_t>((values[first + i] * steps + rounding) - rounding);
        total += step;
        bytes[i] = static_cast<std::int8_t>(step);
      }
    }
    for (std::size_t i = own; i < block_size; ++i) bytes[i] = 0;
    bytes += block_size;
    *sum++ = total;
  }
}

// Masked scores count 0, whatever they are: so a block has the same sums, in the same order, with fewer keys behind it.
float softmax_block(const ScoreBlock& block, float& largest, float& sum) noexcept {
  float* const scores = block.scores;
  float maximum = largest;
  if (block.soft_cap > 0) {
    const float inverse = block.scale / block.soft_cap;
#pragma omp simd reduction(max : maximum)
    for (std::size_t i = block.first; i < block.last; ++i) {
      const float x = scores[i] * inverse;
      const float power = gpux_encoder::exp_of_negative(x < 0 ? 2 * x : -2 * x);
      const float capped = block.soft_cap * (1.0F - power) / (1.0F + power);
      // A NaN stays one.
      const float score = x < 0 ? -capped : x >= 0 ? capped : x;
      scores[i] = score;
      maximum = score > maximum ? score : maximum;
    }
  } else {
#pragma omp simd reduction(max : maximum)
    for (std::size_t i = block.first; i < block.last; ++i) {
      const float score = scores[i] * block.scale;
      scores[i] = score;
      maximum = score > maximum ? score : maximum;
    }
  }
  for (std::size_t i = 0; i < block.first; ++i) scores[i] = 0;
  for (std::size_t i = block.last; i < block.count; ++i) scores[i] = 0;
  float parts[16] = {};
  const auto first = static_cast<std::int32_t>(block.first), last = static_cast<std::int32_t>(block.last);
  for (std::size_t start = 0; start < block.count; start += 16) {
#pragma omp simd
    for (std::int32_t i = 0; i < 16; ++i) {
      const std::int32_t index = static_cast<std::int32_t>(start) + i;
      const float distance = scores[start + static_cast<std::size_t>(i)] - maximum;
      const float power = gpux_encoder::exp_of_negative(distance);
      const float value = distance == distance ? power : distance;
      const float kept = index >= first && index < last ? value : 0;
      scores[start + static_cast<std::size_t>(i)] = kept;
      parts[i] += kept;
    }
  }
  for (std::size_t width = 8; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) parts[i] += parts[i + width];
  }
  const float factor = gpux_encoder::exp_of_negative(largest - maximum);
  largest = maximum;
  sum = sum * factor + parts[0];
  return factor;
}

}  // namespace
}  // namespace gpux_decoder
