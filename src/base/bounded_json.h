#pragma once

#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "gpux/error.h"

namespace gpux {

/// What parse_bounded_json() does with a whole number that 64 bits do not hold.
enum class WholeNumbers : std::uint8_t {
  rounded,  ///< to the nearest float64, as JSON allows; configurations have such numbers for "without a limit"
  exact,    ///< Error storage: two ids that differ would be the same
};

/// Whether a text is a whole number as JSON writes it, below that of int64 or above that of uint64. Pure.
bool exceeds_64_bits(std::string_view text) noexcept;

/// The error for such a number. Pure.
Error too_large_number(ErrorCode code, std::string_view number);

/// Parses JSON that may be hostile, in linear time. nlohmann's dump() and copies recurse, so that deep nesting would
/// overflow the stack; an ordered_json compares each key with all the keys before it in the object, so that a file of
/// 10 MB would take minutes. Throws nlohmann's exceptions, and Error storage above 32 levels and, for ordered_json,
/// above 1024 keys of one object. Defined for nlohmann::json and nlohmann::ordered_json.
template <typename Json = nlohmann::json>
Json parse_bounded_json(std::string_view text, WholeNumbers numbers = WholeNumbers::rounded);

extern template nlohmann::json parse_bounded_json(std::string_view text, WholeNumbers numbers);
extern template nlohmann::ordered_json parse_bounded_json(std::string_view text, WholeNumbers numbers);

}  // namespace gpux
