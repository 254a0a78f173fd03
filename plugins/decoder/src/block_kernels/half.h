#pragma once

#include <cstdint>

namespace gpux_cpu::decoder {

/// The value of a float16. Pure.
inline float float_of_half(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000U) << 16, exponent = half >> 10 & 31U, fraction = half & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t widened = exponent == 31 ? 255 : exponent + 112;
  return __builtin_bit_cast(float, sign | widened << 23 | fraction << 13);
}

/// The value of a bfloat16. Pure.
inline float float_of_bfloat16(std::uint16_t bits) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

/// To the nearest float16, ties to even. Pure.
inline std::uint16_t half_of(float value) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x38800000) {
    // Adding 0.5 leaves what is rounded to the step of the smallest halves.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, sum) - 0x3F000000));
  }
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13));
}

}  // namespace gpux_cpu::decoder
