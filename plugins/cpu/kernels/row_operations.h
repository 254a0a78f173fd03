// Row operations in plain C++ that the compiler vectorizes for the instruction set of the including source: each source
// has its own copy, so that no copy is linked into another.
#include <cstddef>
#include <cstdint>

#include "kernels/exponential.h"
#include "kernels/kernels.h"

namespace gpux_cpu {
namespace {

// erf(x / sqrt(2)) is x * p / q to 2e-7 up to 5.2, from where on it is 1: polynomials of x^2 whose largest error was
// made least by linear programs.
void gelu_rows(float* values, std::size_t count) noexcept {
  constexpr float end = 5.2F;
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const float x = -end > values[i] ? -end : values[i];
    const float bounded = end < x ? end : x, square = bounded * bounded;
    float p = -3.2429025e-8F;
    p = p * square + 1.0788879e-5F;
    p = p * square + 8.2674646e-4F;
    p = p * square + 1.2181123e-2F;
    p = p * square + 1.2084188e-1F;
    p = p * square + 7.9788345e-1F;
    float q = 1.3887422e-4F;
    q = q * square + 3.2623774e-3F;
    q = q * square + 4.3301944e-2F;
    q = q * square + 3.1811056e-1F;
    q = q * square + 1.0F;
    values[i] = 0.5F * x * (bounded * p + q) / q;
  }
}

// (1 + tanh(y)) / 2 is 1 / (1 + exp(-2 * y)).
void tanh_gelu_rows(float* values, std::size_t count) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const float x = values[i];
    const float twice = 1.59576912F * (x + 0.044715F * x * x * x);
    const float power = exp_of_negative(twice < 0 ? twice : -twice);
    values[i] = x * (twice < 0 ? power : 1.0F) / (1.0F + power);
  }
}

void relu_rows(float* values, std::size_t count) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] = values[i] < 0 ? 0 : values[i];
}

// x * sigmoid(slope * x), from the power that does not overflow.
inline float times_sigmoid(float x, float slope) noexcept {
  const float scaled = slope * x;
  const float power = exp_of_negative(scaled < 0 ? scaled : -scaled);
  return x * (scaled < 0 ? power : 1.0F) / (1.0F + power);
}

void silu_rows(float* values, std::size_t count) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] = times_sigmoid(values[i], 1);
}

void quick_gelu_rows(float* values, std::size_t count) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] = times_sigmoid(values[i], 1.702F);
}

void multiply_row(float* values, const float* factors, std::size_t count) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] *= factors[i];
}

void scale_and_add_row(float* values, float scale, const float* added, std::size_t count) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] = values[i] * scale + added[i];
}

void maximum_row(float* values, const float* others, std::size_t count) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] = others[i] > values[i] ? others[i] : values[i];
}

float softmax_part_row(float* values, std::size_t count, float scale, float& largest, float& sum) noexcept {
  float maximum = largest;
#pragma omp simd reduction(max : maximum)
  for (std::size_t i = 0; i < count; ++i) maximum = values[i] > maximum ? values[i] : maximum;
  float part = 0;
#pragma omp simd reduction(+ : part)
  for (std::size_t i = 0; i < count; ++i) {
    const float value = exp_of_negative((values[i] - maximum) * scale);
    values[i] = value;
    part += value;
  }
  // For -infinity the factor is next to nothing, as the exponential of a masked score is.
  const float factor = exp_of_negative((largest - maximum) * scale);
  largest = maximum;
  sum = sum * factor + part;
  return factor;
}

void softmax_row(float* values, std::size_t count, float scale) noexcept {
  float largest = values[0];
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < count; ++i) largest = values[i] > largest ? values[i] : largest;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    const float value = exp_of_negative((values[i] - largest) * scale);
    values[i] = value;
    sum += value;
  }
  const float inverse_sum = 1.0F / sum;
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] *= inverse_sum;
}

void layer_norm_row(const float* x, const float* residual, const float* gamma, const float* beta, float epsilon,
                    std::size_t hidden_size, float* out) noexcept {
  float sum = 0;
  if (residual == nullptr) {
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < hidden_size; ++i) sum += x[i];
  } else {
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < hidden_size; ++i) {
      const float value = x[i] + residual[i];
      out[i] = value;
      sum += value;
    }
    x = out;
  }
  const float mean = sum / static_cast<float>(hidden_size);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < hidden_size; ++i) {
    const float distance = x[i] - mean;
    squares += distance * distance;
  }
  const float inverse_deviation = 1.0F / __builtin_sqrtf(squares / static_cast<float>(hidden_size) + epsilon);
  if (beta == nullptr) {
#pragma omp simd
    for (std::size_t i = 0; i < hidden_size; ++i) out[i] = (x[i] - mean) * inverse_deviation * gamma[i];
    return;
  }
#pragma omp simd
  for (std::size_t i = 0; i < hidden_size; ++i) out[i] = (x[i] - mean) * inverse_deviation * gamma[i] + beta[i];
}

void rms_norm_row(const float* x, const float* residual, const float* gamma, const float* beta, float epsilon,
                  std::size_t hidden_size, float* out) noexcept {
  if (residual != nullptr) {
#pragma omp simd
    for (std::size_t i = 0; i < hidden_size; ++i) out[i] = x[i] + residual[i];
    x = out;
  }
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < hidden_size; ++i) squares += x[i] * x[i];
  const float inverse_root = 1.0F / __builtin_sqrtf(squares / static_cast<float>(hidden_size) + epsilon);
  if (beta == nullptr) {
#pragma omp simd
    for (std::size_t i = 0; i < hidden_size; ++i) out[i] = x[i] * inverse_root * gamma[i];
    return;
  }
#pragma omp simd
  for (std::size_t i = 0; i < hidden_size; ++i) out[i] = x[i] * inverse_root * gamma[i] + beta[i];
}

void rotate_row(float* values, const float* cosines, const float* sines, std::size_t pairs, bool interleaved) noexcept {
  if (interleaved) {
#pragma omp simd
    for (std::size_t i = 0; i < pairs; ++i) {
      const float a = values[2 * i], b = values[2 * i + 1];
      values[2 * i] = a * cosines[i] - b * sines[i];
      values[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
    return;
  }
#pragma omp simd
  for (std::size_t i = 0; i < pairs; ++i) {
    const float a = values[i], b = values[i + pairs];
    values[i] = a * cosines[i] - b * sines[i];
    values[i + pairs] = b * cosines[i] + a * sines[i];
  }
}

void add_relative_row(float* values, const std::uint32_t* buckets, std::uint32_t first_bucket, const float* of_query,
                      const float* of_keys, std::size_t key_stride, std::size_t count) noexcept {
  if (of_query != nullptr) {
#pragma omp simd
    for (std::size_t k = 0; k < count; ++k) values[k] += of_query[buckets[k] - first_bucket];
  }
  if (of_keys != nullptr) {
#pragma omp simd
    for (std::size_t k = 0; k < count; ++k) values[k] += of_keys[(buckets[k] - first_bucket) * key_stride + k];
  }
}

void to_bfloat16_row(const float* values, std::size_t count, std::uint16_t* out) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = __builtin_bit_cast(std::uint32_t, values[i]);
    out[i] = static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
}

void to_bytes_row(const float* values, std::size_t count, std::uint8_t* out, float& scale,
                  std::int32_t& zero) noexcept {
  float least = 0, largest = 0;
#pragma omp simd reduction(min : least) reduction(max : largest)
  for (std::size_t i = 0; i < count; ++i) {
    least = values[i] < least ? values[i] : least;
    largest = values[i] > largest ? values[i] : largest;
  }
  scale = (largest - least) / 255.0F;
  if (!(scale > 0)) scale = 1;
  const float per_step = 1.0F / scale;
  constexpr float rounding = 12582912.0F;
  zero = static_cast<std::int32_t>((-least * per_step + rounding) - rounding);
  const std::int32_t offset = zero;
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const auto step = static_cast<std::int32_t>((values[i] * per_step + rounding) - rounding) + offset;
    const std::int32_t positive = step < 0 ? 0 : step;
    out[i] = static_cast<std::uint8_t>(positive > 255 ? 255 : positive);
  }
}

constexpr Kernels with_row_operations(Kernels kernels) noexcept {
  kernels.gelu = gelu_rows;
  kernels.tanh_gelu = tanh_gelu_rows;
  kernels.relu = relu_rows;
  kernels.silu = silu_rows;
  kernels.quick_gelu = quick_gelu_rows;
  kernels.multiply = multiply_row;
  kernels.scale_and_add = scale_and_add_row;
  kernels.maximum = maximum_row;
  kernels.softmax = softmax_row;
  kernels.softmax_part = softmax_part_row;
  kernels.layer_norm = layer_norm_row;
  kernels.rms_norm = rms_norm_row;
  kernels.rotate = rotate_row;
  kernels.add_relative = add_relative_row;
  kernels.to_bfloat16 = to_bfloat16_row;
  kernels.to_bytes = to_bytes_row;
  return kernels;
}

}  // namespace
}  // namespace gpux_cpu
