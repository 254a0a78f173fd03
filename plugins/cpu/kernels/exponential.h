// Compiled for the instruction set of the including source: each source has its own copy, so that none is linked into
// another.
#pragma once

#include <cstdint>

namespace gpux_cpu {
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

}  // namespace
}  // namespace gpux_cpu
