#include "tensor/small_float.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace gpux {
namespace {

constexpr std::uint16_t no_pattern = 0xffff;

struct Format {
  ElementType type;
  int fraction_bits;
  int lowest_exponent;  // of normal numbers
  std::uint16_t sign_bit;
  std::uint16_t largest;  // finite
  std::uint16_t infinity;
  std::uint16_t nan;
};

constexpr std::array<Format, 8> formats{{
    {ElementType::float16, 10, -14, 0x8000, 0x7bff, 0x7c00, 0x7e00},
    {ElementType::bfloat16, 7, -126, 0x8000, 0x7f7f, 0x7f80, 0x7fc0},
    {ElementType::float8e4m3fn, 3, -6, 0x80, 0x7e, no_pattern, 0x7f},
    {ElementType::float8e4m3fnuz, 3, -7, 0x80, 0x7f, no_pattern, 0x80},
    {ElementType::float8e5m2, 2, -14, 0x80, 0x7b, 0x7c, 0x7e},
    {ElementType::float8e5m2fnuz, 2, -15, 0x80, 0x7f, no_pattern, 0x80},
    {ElementType::float4e2m1, 1, 0, 0x8, 0x7, no_pattern, no_pattern},
    {ElementType::float8e8m0, 0, -127, 0, 0xfe, no_pattern, 0xff},
}};

const Format* format_of(ElementType type) noexcept {
  const auto* const found =
      std::find_if(formats.begin(), formats.end(), [&](const Format& f) { return f.type == type; });
  return found == formats.end() ? nullptr : found;
}

// float8e8m0 is an exponent alone: no zero, no subnormals, no sign.
bool exponent_only(const Format& format) noexcept {
  return format.fraction_bits == 0;
}

// The fnuz types spend the pattern of negative zero on NaN.
bool has_negative_zero(const Format& format) noexcept {
  return format.nan != format.sign_bit;
}

// Zero where `value` is so small that it lies below half of the smallest positive value.
struct Scaled {
  std::uint64_t quotient = 0;  // whole steps of the format
  bool tie = false;
  bool more_than_half = false;
  int exponent = 0;
};

constexpr int double_fraction_bits = 52;

Scaled in_steps_of(const Format& format, double magnitude) noexcept {
  const auto pattern = std::bit_cast<std::uint64_t>(magnitude);
  const int exponent = static_cast<int>(pattern >> double_fraction_bits) - 1023;
  const std::uint64_t significand =
      (pattern & ((std::uint64_t{1} << double_fraction_bits) - 1)) | (std::uint64_t{1} << double_fraction_bits);
  Scaled scaled;
  scaled.exponent = std::max(exponent, format.lowest_exponent);
  const int shift = double_fraction_bits - format.fraction_bits + (scaled.exponent - exponent);
  if (shift > double_fraction_bits + 1) return scaled;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  scaled.quotient = significand >> shift;
  scaled.tie = rest == half;
  scaled.more_than_half = rest > half;
  return scaled;
}

double magnitude_of(const Format& format, std::uint16_t pattern) noexcept {
  if (exponent_only(format)) return std::ldexp(1.0, pattern + format.lowest_exponent);
  const int exponent = pattern >> format.fraction_bits;
  const int fraction = pattern & ((1 << format.fraction_bits) - 1);
  if (exponent == 0) return std::ldexp(fraction, format.lowest_exponent - format.fraction_bits);
  return std::ldexp(fraction + (1 << format.fraction_bits),
                    format.lowest_exponent + exponent - 1 - format.fraction_bits);
}

SmallFloatRounding round_to(const Format& format, double value, Remainder remainder) noexcept {
  if (exponent_only(format) && !(value > 0)) return {};
  const Scaled scaled = in_steps_of(format, std::fabs(value));
  // The pattern counts steps from zero, through subnormal and normal numbers alike.
  std::uint64_t pattern =
      (static_cast<std::uint64_t>(scaled.exponent - format.lowest_exponent) << format.fraction_bits) + scaled.quotient;
  if (exponent_only(format) && scaled.quotient != 0) --pattern;
  const bool tie_goes_up = remainder == Remainder::above || (remainder == Remainder::exact && (pattern & 1U) != 0);
  // Below its smallest value float8e8m0 has nothing to round down to.
  const bool floor_met = exponent_only(format) && scaled.quotient == 0;
  if (!floor_met && (scaled.more_than_half || (scaled.tie && tie_goes_up))) ++pattern;
  const bool negative = std::signbit(value) && (pattern != 0 || has_negative_zero(format));
  return {.bits = static_cast<std::uint16_t>(pattern | (negative ? format.sign_bit : 0U)),
          .fits = pattern <= format.largest,
          .tie = scaled.tie};
}

}  // namespace

bool is_small_float(ElementType type) noexcept {
  return format_of(type) != nullptr;
}

double small_float_value(ElementType type, std::uint16_t bits) noexcept {
  if (type == ElementType::float16) return to_float(Float16{bits});
  if (type == ElementType::bfloat16) return to_float(BFloat16{bits});
  const Format& format = *format_of(type);
  const auto pattern = static_cast<std::uint16_t>(bits & ~format.sign_bit);
  const bool negative = (bits & format.sign_bit) != 0;
  double magnitude = 0;
  if (bits == format.nan || (pattern > format.largest && pattern != format.infinity)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  magnitude = pattern == format.infinity ? std::numeric_limits<double>::infinity() : magnitude_of(format, pattern);
  return negative ? -magnitude : magnitude;
}

SmallFloatRounding round_to_small_float(ElementType type, double value, Remainder remainder) noexcept {
  return round_to(*format_of(type), value, remainder);
}

std::optional<std::uint16_t> small_float_nan(ElementType type) noexcept {
  const std::uint16_t nan = format_of(type)->nan;
  return nan == no_pattern ? std::nullopt : std::optional(nan);
}

std::optional<std::uint16_t> small_float_infinity(ElementType type, bool negative) noexcept {
  const Format& format = *format_of(type);
  if (format.infinity == no_pattern) return std::nullopt;
  return static_cast<std::uint16_t>(format.infinity | (negative ? format.sign_bit : 0U));
}

double largest_finite(ElementType type) noexcept {
  if (const Format* format = format_of(type)) return magnitude_of(*format, format->largest);
  return type == ElementType::float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

}  // namespace gpux
