#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <fast_float/fast_float.h>
#include <fmt/format.h>

#include "gpux/tensor.h"
#include "tensor/integer_range.h"
#include "tensor/json_text.h"
#include "tensor/small_float.h"

/// One element of a tensor as JSON writes it. What is read a million times is here, what a message needs is not.
namespace gpux::json {

/// Error message of reading an element, without its place, which the reader adds. Empty: no error.
using Failure = std::string;

enum class Special : std::uint8_t { none, nan, infinity, negative_infinity };

Failure not_a(std::string_view expected, const JsonCursor& cursor);
Failure not_a_float(ElementType type, const JsonCursor& cursor);
Failure too_large(std::string_view number, ElementType type);
Failure out_of_range(std::string_view number, ElementType type, IntegerRange range);
/// "an int64", "a float32"
std::string with_article(ElementType type);

/// A whole number written with a point or an exponent, or with more digits than 64 bits have.
Failure read_written_out(std::string_view number, ElementType type, IntegerRange range, Integer& value);

/// NaN and the infinities, bare or in quotes; without them the cursor stays.
Special read_special(JsonCursor& cursor) noexcept;

/// Where the decimal lies, seen from the double nearest to it.
Remainder remainder_of(std::string_view number, double nearest);

inline std::string_view word_at(const JsonCursor& cursor) noexcept {
  const char* end = cursor.at;
  while (end != cursor.end && !ends_json_word(*end)) ++end;
  return {cursor.at, static_cast<std::size_t>(end - cursor.at)};
}

// Numbers that fast_float takes and JSON does not: 01, 1. and .5. What it leaves behind shows by itself.
[[gnu::always_inline]] inline bool begins_as_json_number(const JsonCursor& cursor) noexcept {
  const char* digit = cursor.at + (cursor.peek() == '-' ? 1 : 0);
  if (digit == cursor.end || !is_json_digit(*digit)) return false;
  const char* after = digit + 1;
  while (after != cursor.end && is_json_digit(*after)) ++after;
  if (*digit == '0' && after != digit + 1) return false;
  return after == cursor.end || *after != '.' || (after + 1 != cursor.end && is_json_digit(after[1]));
}

template <typename Float>
[[gnu::always_inline]] inline bool read_decimal(JsonCursor& cursor, Float& value) noexcept {
  if (!begins_as_json_number(cursor)) return false;
  const auto parsed = fast_float::from_chars(cursor.at, cursor.end, value);
  if (parsed.ptr != cursor.end && !ends_json_word(*parsed.ptr)) return false;
  cursor.at = parsed.ptr;
  return true;
}

// Each codec reads one element at the cursor. `Stored` is what the tensor's memory is made of; the packed types are
// packed at the end.

template <typename Float>
struct FloatCodec {
  using Stored = Float;
  ElementType type;

  /// The plain case without a message; false: read() is to look, from the same place.
  [[gnu::flatten]] static bool read_plain(JsonCursor& cursor, Stored& value) noexcept {
    JsonCursor ahead = cursor;
    if (!read_decimal(ahead, value) || !std::isfinite(value)) return false;
    cursor.at = ahead.at;
    return true;
  }

  Failure read(JsonCursor& cursor, Stored& value) const {
    const char* const first = cursor.at;
    if (read_decimal(cursor, value)) {
      if (std::isfinite(value)) [[likely]]
        return {};
      return too_large({first, static_cast<std::size_t>(cursor.at - first)}, type);
    }
    switch (read_special(cursor)) {
      case Special::nan:
        value = std::numeric_limits<Float>::quiet_NaN();
        return {};
      case Special::infinity:
        value = std::numeric_limits<Float>::infinity();
        return {};
      case Special::negative_infinity:
        value = -std::numeric_limits<Float>::infinity();
        return {};
      case Special::none:
        break;
    }
    return not_a_float(type, cursor);
  }
};

template <typename Bits>
struct SmallFloatCodec {
  using Stored = Bits;
  ElementType type;

  Failure read(JsonCursor& cursor, Stored& bits) const {
    const char* const first = cursor.at;
    double value = 0;
    if (read_decimal(cursor, value)) {
      const std::string_view number(first, static_cast<std::size_t>(cursor.at - first));
      SmallFloatRounding rounding = round_to_small_float(type, value);
      if (rounding.tie && std::isfinite(value)) {
        rounding = round_to_small_float(type, value, remainder_of(number, value));
      }
      if (!rounding.fits) return too_large(number, type);
      bits = static_cast<Bits>(rounding.bits);
      return {};
    }
    const char* const word = cursor.at;
    const Special special = read_special(cursor);
    if (special == Special::none) return not_a_float(type, cursor);
    const auto pattern = special == Special::nan ? small_float_nan(type)
                                                 : small_float_infinity(type, special == Special::negative_infinity);
    if (!pattern) {
      return fmt::format("{} does not fit {}, which has no such value",
                         json_excerpt({word, static_cast<std::size_t>(cursor.at - word)}), to_string(type));
    }
    bits = static_cast<Bits>(*pattern);
    return {};
  }
};

inline Failure read_integer(JsonCursor& cursor, ElementType type, IntegerRange range, Integer& value) {
  constexpr std::ptrdiff_t safe_digits = 19;  // any so many fit 64 bits
  const char* const first = cursor.at;
  value = {.negative = cursor.take('-'), .magnitude = 0};
  const char* const digits = cursor.at;
  while (is_json_digit(cursor.peek())) {
    value.magnitude = value.magnitude * 10 + static_cast<std::uint64_t>(*cursor.at - '0');
    ++cursor.at;
  }
  const std::ptrdiff_t length = cursor.at - digits;
  const bool plain = length > 0 && length <= safe_digits && (*digits != '0' || length == 1) &&
                     (cursor.done() || ends_json_word(*cursor.at));
  if (!plain) {
    cursor.at = first;
    const std::string_view word = word_at(cursor);
    if (word.empty() || !(is_json_digit(word.front()) || word.front() == '-')) return not_a(with_article(type), cursor);
    if (Failure failure = read_written_out(word, type, range, value); !failure.empty()) return failure;
    cursor.at += word.size();
  }
  if (range.holds(value)) [[likely]]
    return {};
  return out_of_range({first, static_cast<std::size_t>(cursor.at - first)}, type, range);
}

template <typename Int>
struct IntegerCodec {
  using Stored = Int;
  ElementType type;
  IntegerRange range = *integer_range(type);

  Failure read(JsonCursor& cursor, Stored& stored) const {
    Integer value;
    Failure failure = read_integer(cursor, type, range, value);
    stored = static_cast<Int>(value.two_complement());
    return failure;
  }
};

struct BoolCodec {
  using Stored = std::uint8_t;

  Failure read(JsonCursor& cursor, Stored& stored) const {
    const std::string_view word = word_at(cursor);
    if (word != "true" && word != "false" && word != "1" && word != "0") {
      return not_a("a bool (true or false, 1 or 0)", cursor);
    }
    stored = word == "true" || word == "1" ? 1 : 0;
    cursor.at += word.size();
    return {};
  }
};

struct StringCodec {
  using Stored = std::string;

  Failure read(JsonCursor& cursor, Stored& stored) const {
    if (cursor.peek() != '"') return not_a("a string", cursor);
    const JsonCursor start = cursor;
    const char* const failure = read_json_string(cursor, stored);
    if (failure == nullptr) return {};
    return fmt::format("{}: {}", json_excerpt(start.rest()), failure);
  }
};

}  // namespace gpux::json
