// Vectors of the including source's instruction set: each source has its own copy, so that none is linked into another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpux_cpu {
namespace {

struct Vectors512 {
  using Floats [[gnu::vector_size(64)]] = float;
  using Integers [[gnu::vector_size(64)]] = std::int32_t;
  using Words [[gnu::vector_size(64)]] = std::int16_t;
  using UnsignedWords [[gnu::vector_size(64)]] = std::uint16_t;
  using Bytes [[gnu::vector_size(16)]] = std::int8_t;  // one of each lane
  static constexpr std::size_t lanes = 16;

  static bool can_run() noexcept {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
};

struct Vectors256 {
  using Floats [[gnu::vector_size(32)]] = float;
  using Integers [[gnu::vector_size(32)]] = std::int32_t;
  using Words [[gnu::vector_size(32)]] = std::int16_t;
  using UnsignedWords [[gnu::vector_size(32)]] = std::uint16_t;
  using Bytes [[gnu::vector_size(8)]] = std::int8_t;
  static constexpr std::size_t lanes = 8;

  static bool can_run() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
};

struct Bytes4 {
  char bytes[4];
};

template <typename Value>
inline Value load(const void* from) noexcept {
  Value value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

/// Four bytes, in every lane. Asked for twice they are read twice, since there is no register to keep them in.
template <typename Vectors>
inline typename Vectors::Integers spread(const void* from) noexcept {
  typename Vectors::Integers value;
  asm volatile("vpbroadcastd %1, %0" : "=v"(value) : "m"(*static_cast<const Bytes4*>(from)));
  return value;
}

template <typename Floats>
inline void add_product(Floats& sum, Floats row, Floats weights) noexcept {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
}

}  // namespace
}  // namespace gpux_cpu
