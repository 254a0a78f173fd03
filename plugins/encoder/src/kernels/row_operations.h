// Row operations in plain C++ that the compiler vectorizes for the instruction set of the including source: each source
// has its own copy, so that no copy is linked into another.
#include <cstddef>
#include <cstdint>

namespace gpux_encoder {
namespace {

// exp(x) for x of -87 to 0: 2^n times a polynomial on [-ln(2)/2, ln(2)/2], by Cody and Waite. Relative error 3e-7.
inline float exp_of_negative(float x) noexcept {
  // A NaN becomes a number here, because it could not be a power.
  const float bounded = x > -87.0F ? x : -87.0F;
  // Adding and taking away 1.5 * 2^23 rounds to a whole number.
  constexpr float rounding = 12582912.0F;
  const float n = (bounded * 1.44269504F + rounding) - rounding;
  const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto power = (static_cast<std::int32_t>(n) + 127) << 23;
  return p * __builtin_bit_cast(float, power);
}

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
#pragma omp simd
  for (std::size_t i = 0; i < hidden_size; ++i) out[i] = (x[i] - mean) * inverse_deviation * gamma[i] + beta[i];
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

}  // namespace
}  // namespace gpux_encoder
