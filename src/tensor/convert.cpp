#include "tensor/convert.h"

#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/integer_range.h"
#include "tensor/packed.h"
#include "tensor/small_float.h"

namespace gpux {
namespace {

template <std::integral Number>
Integer integer_of(Number number) noexcept {
  if constexpr (std::is_signed_v<Number>) {
    const std::int64_t wide{number};
    return {.negative = wide < 0,
            .magnitude = wide < 0 ? 0 - static_cast<std::uint64_t>(wide) : static_cast<std::uint64_t>(wide)};
  } else {
    return {.negative = false, .magnitude = number};
  }
}

// Empty where the number is not whole or beyond 64 bits.
std::optional<Integer> integer_of(double number) noexcept {
  const double magnitude = std::fabs(number);
  if (!(magnitude < 0x1p64) || magnitude != std::trunc(magnitude)) return std::nullopt;
  return Integer{.negative = number < 0, .magnitude = static_cast<std::uint64_t>(magnitude)};
}

// A double that rounds to the same value as the number does in any type of at most 24 significant bits: what a double
// cannot hold is kept as its last bit being odd.
template <typename Number>
double rounds_alike(Number number) noexcept {
  if constexpr (sizeof(Number) == 8 && std::is_integral_v<Number>) {
    constexpr unsigned surplus_bits = 11;
    const Integer integer = integer_of(number);
    if (integer.magnitude >> 53 == 0) return static_cast<double>(number);
    const std::uint64_t rest = integer.magnitude & ((std::uint64_t{1} << surplus_bits) - 1);
    const std::uint64_t kept = integer.magnitude >> surplus_bits | static_cast<std::uint64_t>(rest != 0);
    const double magnitude = std::ldexp(static_cast<double>(kept), surplus_bits);
    return integer.negative ? -magnitude : magnitude;
  } else {
    return static_cast<double>(number);
  }
}

// Each of these stores one number and answers whether it fits.

struct ToInteger {
  IntegerRange range;

  template <typename Number, typename Stored>
  bool operator()(Number number, Stored& stored) const noexcept {
    const std::optional<Integer> integer = integer_of(number);
    if (!integer || !range.holds(*integer)) return false;
    stored = static_cast<Stored>(integer->two_complement());
    return true;
  }
};

struct ToFloat {
  template <typename Number, typename Stored>
  bool operator()(Number number, Stored& stored) const noexcept {
    stored = static_cast<Stored>(number);
    if constexpr (std::is_floating_point_v<Number> && sizeof(Number) > sizeof(Stored)) {
      return !std::isinf(stored) || std::isinf(number);
    }
    return true;
  }
};

struct ToSmallFloat {
  ElementType type;

  template <typename Number, typename Stored>
  bool operator()(Number number, Stored& stored) const noexcept {
    const double value = rounds_alike(number);
    if (std::isfinite(value)) {
      const SmallFloatRounding rounding = round_to_small_float(type, value);
      stored = static_cast<Stored>(rounding.bits);
      return rounding.fits;
    }
    const auto bits = std::isnan(value) ? small_float_nan(type) : small_float_infinity(type, value < 0);
    stored = static_cast<Stored>(bits.value_or(0));
    return bits.has_value();
  }
};

std::string place_of(const Shape& shape, std::size_t index) {
  std::string place;
  auto rest = static_cast<std::int64_t>(index);
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    place.insert(0, fmt::format("[{}]", rest % *size));
    rest /= *size;
  }
  return place.empty() ? place : place + ": ";
}

std::string limits_of(ElementType type) {
  if (const auto range = integer_range(type)) {
    return fmt::format("whole numbers from {} to {}", range->lowest, range->highest);
  }
  if (type == ElementType::float8e8m0) return "powers of two up to 2^127, no zero";
  if (type == ElementType::float32) return fmt::format("largest {}", std::numeric_limits<float>::max());
  return fmt::format("largest {}", largest_finite(type));
}

template <typename Number, typename Stored, typename Store>
void convert_elements(std::span<const Number> from, std::span<Stored> to, const Store& store, ElementType type,
                      const Shape& shape) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (store(from[i], to[i])) [[likely]]
      continue;
    throw Error(ErrorCode::invalid_input, fmt::format("{}{} does not fit {} ({})", place_of(shape, i), from[i],
                                                      to_string(type), limits_of(type)));
  }
}

template <typename Stored>
std::span<Stored> elements_of(std::span<std::byte> bytes) noexcept {
  return {reinterpret_cast<Stored*>(bytes.data()), bytes.size() / sizeof(Stored)};
}

template <typename Number>
void convert_into(std::span<const Number> from, Tensor& tensor) {
  const ElementType type = tensor.type();
  const auto fill = [&]<typename Stored>(Stored, const auto& store) {
    if (bits_of(type) < 8) {
      std::vector<Stored> unpacked(from.size());
      convert_elements(from, std::span<Stored>(unpacked), store, type, tensor.shape());
      for (std::size_t i = 0; i < unpacked.size(); ++i) {
        set_packed_element(tensor.mutable_bytes(), i, bits_of(type), static_cast<std::uint8_t>(unpacked[i]));
      }
    } else {
      convert_elements(from, elements_of<Stored>(tensor.mutable_bytes()), store, type, tensor.shape());
    }
  };
  if (const auto range = integer_range(type)) {
    const ToInteger store{*range};
    switch (bits_of(type)) {
      case 64:
        return fill(std::uint64_t{}, store);
      case 32:
        return fill(std::uint32_t{}, store);
      case 16:
        return fill(std::uint16_t{}, store);
      default:
        return fill(std::uint8_t{}, store);
    }
  }
  if (type == ElementType::float32) return fill(float{}, ToFloat{});
  if (type == ElementType::float64) return fill(double{}, ToFloat{});
  if (bits_of(type) == 16) return fill(std::uint16_t{}, ToSmallFloat{type});
  return fill(std::uint8_t{}, ToSmallFloat{type});
}

std::vector<double> widened_floats(const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.element_count()));
  const std::size_t bits = bits_of(tensor.type());
  const std::span<const std::byte> bytes = tensor.bytes();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto low = std::to_integer<unsigned>(bytes[i * bits / 8]);
    const unsigned pattern =
        bits == 16 ? low | std::to_integer<unsigned>(bytes[2 * i + 1]) << 8 : packed_element(bytes, i, bits);
    values[i] = small_float_value(tensor.type(), static_cast<std::uint16_t>(pattern));
  }
  return values;
}

std::vector<std::int8_t> unpacked_integers(const Tensor& tensor) {
  std::vector<std::int8_t> values(static_cast<std::size_t>(tensor.element_count()));
  const std::size_t bits = bits_of(tensor.type());
  const bool is_signed = tensor.type() == ElementType::int4 || tensor.type() == ElementType::int2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint8_t element = packed_element(tensor.bytes(), i, bits);
    values[i] = is_signed ? sign_extended(element, bits) : static_cast<std::int8_t>(element);
  }
  return values;
}

void convert_from(const Tensor& from, Tensor& to) {
  switch (from.type()) {
    case ElementType::float32:
      return convert_into(from.as<float>(), to);
    case ElementType::float64:
      return convert_into(from.as<double>(), to);
    case ElementType::int8:
      return convert_into(from.as<std::int8_t>(), to);
    case ElementType::int16:
      return convert_into(from.as<std::int16_t>(), to);
    case ElementType::int32:
      return convert_into(from.as<std::int32_t>(), to);
    case ElementType::int64:
      return convert_into(from.as<std::int64_t>(), to);
    case ElementType::uint8:
      return convert_into(from.as<std::uint8_t>(), to);
    case ElementType::uint16:
      return convert_into(from.as<std::uint16_t>(), to);
    case ElementType::uint32:
      return convert_into(from.as<std::uint32_t>(), to);
    case ElementType::uint64:
      return convert_into(from.as<std::uint64_t>(), to);
    case ElementType::boolean:
      return convert_into(std::span(reinterpret_cast<const std::uint8_t*>(from.bytes().data()), from.byte_size()), to);
    default:
      break;
  }
  if (is_small_float(from.type())) return convert_into(std::span<const double>(widened_floats(from)), to);
  return convert_into(std::span<const std::int8_t>(unpacked_integers(from)), to);
}

bool is_number(ElementType type) noexcept {
  return integer_range(type) || is_small_float(type) || type == ElementType::float32 || type == ElementType::float64;
}

}  // namespace

Tensor convert(const Tensor& tensor, ElementType type) {
  if (tensor.type() == type) return tensor;
  if (!is_number(tensor.type()) || !is_number(type)) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("{} elements cannot be converted to {}", to_string(tensor.type()), to_string(type)));
  }
  Tensor converted = Tensor::allocate(type, tensor.shape());
  convert_from(tensor, converted);
  return converted;
}

}  // namespace gpux
