// Small numbers as floats, a vector at a time. Each source that includes this has its own copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block_kernels/block_kernels.h"
#include "kernels/vectors.h"

namespace gpux_cpu::decoder {
namespace {

/// One for each lane.
template <typename Value, typename Vectors>
struct Lanes {
  Value values[Vectors::lanes];
};

template <typename Vectors>
inline typename Vectors::Floats load_as_floats(const float* from) noexcept {
  return load<typename Vectors::Floats>(from);
}

/// Float16.
template <typename Vectors>
inline typename Vectors::Floats load_as_floats(const std::uint16_t* from) noexcept {
  typename Vectors::Floats value;
  asm("vcvtph2ps %1, %0" : "=v"(value) : "m"(*reinterpret_cast<const Lanes<std::uint16_t, Vectors>*>(from)));
  return value;
}

struct Bfloat16 {
  std::uint16_t bits;
};

template <typename Vectors>
inline typename Vectors::Floats load_as_floats(const Bfloat16* from) noexcept {
  typename Vectors::Integers value;
  asm("vpmovzxwd %1, %0" : "=v"(value) : "m"(*reinterpret_cast<const Lanes<Bfloat16, Vectors>*>(from)));
  return __builtin_bit_cast(typename Vectors::Floats, value << 16);
}

template <typename Vectors>
inline typename Vectors::Integers load_as_integers(const std::uint8_t* from) noexcept {
  typename Vectors::Integers value;
  asm("vpmovzxbd %1, %0" : "=v"(value) : "m"(*reinterpret_cast<const Lanes<std::uint8_t, Vectors>*>(from)));
  return value;
}

template <typename Vectors>
inline typename Vectors::Integers load_as_integers(const std::int8_t* from) noexcept {
  typename Vectors::Integers value;
  asm("vpmovsxbd %1, %0" : "=v"(value) : "m"(*reinterpret_cast<const Lanes<std::int8_t, Vectors>*>(from)));
  return value;
}

/// The numbers of a block, for a vector of columns from `column` on. `block`: of all panels.
template <typename Vectors>
inline typename Vectors::Floats load_numbers(const BlockNumbers& numbers, std::size_t block,
                                             std::size_t column) noexcept {
  using Floats = typename Vectors::Floats;
  const std::size_t at = block * panel_columns + column;
  if (numbers.halves != nullptr) return load_as_floats<Vectors>(numbers.halves + at);
  if (numbers.floats != nullptr) return load_as_floats<Vectors>(numbers.floats + at);
  const Floats steps = __builtin_convertvector(load_as_integers<Vectors>(numbers.steps + at), Floats);
  return steps * load<Floats>(numbers.step_size + (block >> numbers.step_shift) * panel_columns + column);
}

}  // namespace
}  // namespace gpux_cpu::decoder
