// Row operations in plain C++ that the compiler vectorizes for the instruction set of the including source.
#include <cstddef>
#include <cstdint>

#include "block_kernels/block_kernels.h"

namespace gpux_cpu::decoder {
namespace {

// As integers, the magnitudes of NaNs are the largest, then those of infinities.
inline std::int32_t magnitude_bits(float value) noexcept {
  return __builtin_bit_cast(std::int32_t, value) & 0x7FFFFFFF;
}

inline std::int32_t largest_magnitude_bits(const float* values, std::size_t count) noexcept {
  std::int32_t lanes[16] = {}, largest = 0;
  std::size_t first = 0;
  for (; first + 16 <= count; first += 16) {
#pragma omp simd
    for (std::int32_t i = 0; i < 16; ++i) {
      const std::int32_t own = magnitude_bits(values[first + i]);
      lanes[i] = own > lanes[i] ? own : lanes[i];
    }
  }
#pragma omp simd reduction(max : largest)
  for (std::int32_t i = 0; i < 16; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  for (; first < count; ++first) {
    const std::int32_t own = magnitude_bits(values[first]);
    largest = own > largest ? own : largest;
  }
  return largest;
}

inline std::int32_t step_of(float value, float steps) noexcept {
  constexpr float rounding = 12582912.0F;  // 1.5 * 2^23: adding and taking it away rounds to a whole number
  return static_cast<std::int32_t>((value * steps + rounding) - rounding);
}

// Returns the sum of the bytes.
inline std::int32_t write_steps(const float* values, std::size_t count, float steps, std::int8_t* bytes) noexcept {
  std::int32_t lanes[16] = {}, total = 0;
  std::size_t first = 0;
  for (; first + 16 <= count; first += 16) {
#pragma omp simd
    for (std::int32_t i = 0; i < 16; ++i) {
      const std::int32_t step = step_of(values[first + i], steps);
      lanes[i] += step;
      bytes[first + i] = static_cast<std::int8_t>(step);
    }
  }
#pragma omp simd reduction(+ : total)
  for (std::int32_t i = 0; i < 16; ++i) total += lanes[i];
  for (; first < count; ++first) {
    const std::int32_t step = step_of(values[first], steps);
    total += step;
    bytes[first] = static_cast<std::int8_t>(step);
  }
  return total;
}

// The scale of a block, and the steps of a unit: 0 where all of its bytes are 0.
inline float step_size(std::int32_t largest_bits, float& steps) noexcept {
  const bool is_finite = largest_bits < 0x7F800000;
  const float magnitude = __builtin_bit_cast(float, largest_bits);
  // Smaller ones are 0: the inverse of their step would be infinite.
  steps = !is_finite || magnitude < 1e-30F ? 0 : 127.0F / magnitude;
  return is_finite ? magnitude / 127.0F : __builtin_nanf("");
}

void quantize_row(const float* values, std::size_t count, std::size_t block_size, std::int8_t* bytes, float* scale,
                  std::int32_t* negative_sum) noexcept {
  for (std::size_t first = 0; first < count; first += block_size, bytes += block_size) {
    const std::size_t own = count - first < block_size ? count - first : block_size;
    float steps = 0;
    *scale++ = step_size(largest_magnitude_bits(values + first, own), steps);
    if (steps == 0) {
      for (std::size_t i = 0; i < own; ++i) bytes[i] = 0;
      *negative_sum++ = 0;
    } else {
      *negative_sum++ = -write_steps(values + first, own, steps, bytes);
    }
    for (std::size_t i = own; i < block_size; ++i) bytes[i] = 0;
  }
}

// exp(x) for x of -87 to 0, 0 below: 2^n times a polynomial on [-ln(2)/2, ln(2)/2]. Relative error 2e-7. A NaN stays
// one.
inline float exp_of_distance(float x) noexcept {
  // Adding and taking away 1.5 * 2^23 rounds to a whole number.
  constexpr float rounding = 12582912.0F;
  const float bounded = x > -87.0F ? x : -87.0F;
  const float shifted = __builtin_fmaf(bounded, 1.44269504F, rounding), n = shifted - rounding;
  const float r = __builtin_fmaf(n, 2.12194440e-4F, __builtin_fmaf(n, -0.693359375F, bounded));
  float p = 1.9875691500e-4F;
  p = __builtin_fmaf(p, r, 1.3981999507e-3F);
  p = __builtin_fmaf(p, r, 8.3334519073e-3F);
  p = __builtin_fmaf(p, r, 4.1665795894e-2F);
  p = __builtin_fmaf(p, r, 1.6666665459e-1F);
  p = __builtin_fmaf(p, r, 5.0000001201e-1F);
  p = __builtin_fmaf(p * r, r, r + 1.0F);
  // The whole number is in the lowest bits of `shifted`.
  const std::int32_t power = (__builtin_bit_cast(std::int32_t, shifted) << 23) + 0x3F800000;
  const float value = p * __builtin_bit_cast(float, power);
  return x >= -87.0F ? value : x < -87.0F ? 0 : x;
}

// tanh(x) is (1 - exp(-2 * x)) / (1 + exp(-2 * x)).
inline float soft_capped(float score, float cap, float inverse_cap) noexcept {
  const float x = score * inverse_cap, power = exp_of_distance(x < 0 ? 2 * x : -2 * x);
  const float capped = cap * (1.0F - power) / (1.0F + power);
  return x < 0 ? -capped : capped;
}

inline float largest_of(const float (&lanes)[16]) noexcept {
  float largest = lanes[0];
  for (const float own : lanes) largest = own > largest ? own : largest;
  return largest;
}

// In one order for vectors of any width.
inline float sum_of(float (&lanes)[16]) noexcept {
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Adds a block to the sum of those before: the factor of what was computed with their largest score.
inline float updated(float& largest, float& sum, float maximum, float total) noexcept {
  // Mostly the largest is that of an earlier block.
  const float factor = largest == maximum ? 1 : largest == -__builtin_inff() ? 0 : exp_of_distance(largest - maximum);
  largest = maximum;
  sum = sum * factor + total;
  return factor;
}

// Scores are taken 16 at a time, so that a block has the same sums, in the same order, with fewer keys behind it.
float softmax_block(const ScoreBlock& block, float& largest, float& sum) noexcept {
  float* const scores = block.scores;
  const auto first = static_cast<std::int32_t>(block.first), last = static_cast<std::int32_t>(block.last);
  const auto count = static_cast<std::int32_t>(block.count);
  constexpr float none = -__builtin_inff();
  float scale = block.scale;
  if (block.soft_cap > 0) {
    const float cap = block.soft_cap, inverse_cap = scale / cap;
#pragma omp simd
    for (std::int32_t i = 0; i < count; ++i) scores[i] = soft_capped(scores[i], cap, inverse_cap);
    scale = 1;
  }
  float maxima[16];
  for (float& maximum : maxima) maximum = largest;
  for (std::int32_t start = 0; start < count; start += 16) {
#pragma omp simd
    for (std::int32_t i = 0; i < 16; ++i) {
      const bool is_masked = start + i < first || start + i >= last;
      const float score = is_masked ? none : scores[start + i] * scale;
      scores[start + i] = score;
      maxima[i] = score > maxima[i] ? score : maxima[i];
    }
  }
  const float maximum = largest_of(maxima);
  float parts[16] = {};
  for (std::int32_t start = 0; start < count; start += 16) {
#pragma omp simd
    for (std::int32_t i = 0; i < 16; ++i) {
      const float score = scores[start + i];
      // Masked ones count 0, whatever the largest is.
      const float power = exp_of_distance(score - maximum);
      const float value = score == none ? 0 : power;
      scores[start + i] = value;
      parts[i] += value;
    }
  }
  return updated(largest, sum, maximum, sum_of(parts));
}

}  // namespace
}  // namespace gpux_cpu::decoder
