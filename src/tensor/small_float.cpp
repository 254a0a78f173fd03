#include "tensor/small_float.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
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

constexpr int max_digits = 5;  // enough to tell any two neighbours of at most 11 significant bits apart

// Powers of ten that a double holds exactly.
constexpr std::array<double, 23> exact_powers{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// For numbers of at most five digits before the point; several times as fast as std::round.
double to_whole(double number) noexcept {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): what comes out is tried, not trusted
  return static_cast<double>(static_cast<std::int64_t>(number + 0.5));
}

// `magnitude` to that many significant digits, as the double nearest to the decimal.
double with_digits(double magnitude, int digits, int decimal_exponent) noexcept {
  const int places = digits - 1 - decimal_exponent;
  if (places >= 0 && places < static_cast<int>(exact_powers.size())) {
    const double power = exact_powers[static_cast<std::size_t>(places)];
    return to_whole(magnitude * power) / power;
  }
  if (places < 0 && -places < static_cast<int>(exact_powers.size())) {
    const double power = exact_powers[static_cast<std::size_t>(-places)];
    return to_whole(magnitude / power) * power;
  }
  std::array<char, 32> text{};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), magnitude, std::chars_format::scientific, digits - 1);
  double value = 0;
  std::from_chars(text.data(), written.ptr, value);
  return value;
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

double shortest_decimal(ElementType type, std::uint16_t bits) noexcept {
  const double value = small_float_value(type, bits);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return value;
  const Format& format = *format_of(type);
  const int decimal_exponent = static_cast<int>(std::floor(std::log10(magnitude)));
  for (int digits = 1; digits <= max_digits; ++digits) {
    const double candidate = std::copysign(with_digits(magnitude, digits, decimal_exponent), value);
    if (!std::isfinite(candidate)) continue;
    // A tie is left alone: the candidate's decimal may lie on the other side of it than its double.
    const SmallFloatRounding rounding = round_to(format, candidate, Remainder::exact);
    if (rounding.fits && rounding.bits == bits && !rounding.tie) return candidate;
  }
  return value;
}

}  // namespace gpux
