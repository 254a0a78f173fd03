#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpux {

/// Elements of 2 or 4 bits as ONNX lays them: the first in the lowest bits of a byte.
[[nodiscard]] inline std::uint8_t packed_element(std::span<const std::byte> bytes, std::size_t index,
                                                 std::size_t bits) noexcept {
  const std::size_t position = index * bits;
  const unsigned mask = (1U << bits) - 1;
  return static_cast<std::uint8_t>((std::to_integer<unsigned>(bytes[position / 8]) >> (position % 8)) & mask);
}

/// Sets one element of memory that was zero there; higher bits of `value` are dropped.
inline void set_packed_element(std::span<std::byte> bytes, std::size_t index, std::size_t bits,
                               std::uint8_t value) noexcept {
  const std::size_t position = index * bits;
  const unsigned mask = (1U << bits) - 1;
  bytes[position / 8] |= static_cast<std::byte>((value & mask) << (position % 8));
}

/// The signed number in the lowest `bits` bits.
[[nodiscard]] inline std::int8_t sign_extended(std::uint8_t value, std::size_t bits) noexcept {
  const unsigned sign = 1U << (bits - 1);
  const unsigned mask = (1U << bits) - 1;
  return static_cast<std::int8_t>(static_cast<int>((value & mask) ^ sign) - static_cast<int>(sign));
}

}  // namespace gpux
