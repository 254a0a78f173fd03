#pragma once

#include <cstdint>
#include <optional>

#include "gpux/tensor.h"

namespace gpux {

/// Any integer of 64 bits, signed or not.
struct Integer {
  bool negative = false;
  std::uint64_t magnitude = 0;

  /// The low 64 bits as processors keep it.
  [[nodiscard]] std::uint64_t two_complement() const noexcept { return negative ? 0 - magnitude : magnitude; }
};

/// Lowest and highest value of an integer type.
struct IntegerRange {
  std::int64_t lowest = 0;
  std::uint64_t highest = 0;

  [[nodiscard]] bool holds(Integer value) const noexcept {
    return value.negative ? value.magnitude <= 0 - static_cast<std::uint64_t>(lowest) : value.magnitude <= highest;
  }
};

/// Range of an integer type; empty for other types. That of bool is 0 to 1.
[[nodiscard]] inline std::optional<IntegerRange> integer_range(ElementType type) noexcept {
  const std::size_t bits = bits_of(type);
  switch (type) {
    case ElementType::boolean:
      return IntegerRange{0, 1};
    case ElementType::int2:
    case ElementType::int4:
    case ElementType::int8:
    case ElementType::int16:
    case ElementType::int32:
    case ElementType::int64: {
      const std::uint64_t half = std::uint64_t{1} << (bits - 1);
      return IntegerRange{static_cast<std::int64_t>(0 - half), half - 1};
    }
    case ElementType::uint2:
    case ElementType::uint4:
    case ElementType::uint8:
    case ElementType::uint16:
    case ElementType::uint32:
    case ElementType::uint64:
      return IntegerRange{0, bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1};
    default:
      return std::nullopt;
  }
}

}  // namespace gpux
