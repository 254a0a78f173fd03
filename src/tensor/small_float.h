#pragma once

#include <cstdint>
#include <optional>

#include "gpux/tensor.h"

namespace gpux {

/// The floating types of at most 16 bits: float16, bfloat16, the float8 family, float4e2m1, float8e8m0.
/// Their elements are handled as bit patterns in the low bits of 16.
[[nodiscard]] bool is_small_float(ElementType type) noexcept;

/// The exact value of a bit pattern.
[[nodiscard]] double small_float_value(ElementType type, std::uint16_t bits) noexcept;

/// Where the number that is meant lies, seen from the double that stands for it, in magnitude.
enum class Remainder : std::uint8_t { below, exact, above };

struct SmallFloatRounding {
  std::uint16_t bits = 0;
  bool fits = false;  ///< false: too large for every finite value of the type
  bool tie = false;   ///< halfway between two values: the remainder decides
};

/// The value of the type nearest to a finite `value`, ties to even. Where `value` itself was rounded from something
/// longer and the answer is a tie, ask again with the remainder. Magnitudes that would round beyond the largest finite
/// value do not fit; nor do zero and negative numbers fit float8e8m0, which has none.
[[nodiscard]] SmallFloatRounding round_to_small_float(ElementType type, double value,
                                                      Remainder remainder = Remainder::exact) noexcept;

/// The bit patterns of NaN and the infinities, where the type has them.
[[nodiscard]] std::optional<std::uint16_t> small_float_nan(ElementType type) noexcept;
[[nodiscard]] std::optional<std::uint16_t> small_float_infinity(ElementType type, bool negative) noexcept;

/// The largest finite value of a floating type, small or not.
[[nodiscard]] double largest_finite(ElementType type) noexcept;

}  // namespace gpux
