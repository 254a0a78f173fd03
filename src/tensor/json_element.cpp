#include "tensor/json_element.h"

#include "tensor/decimal.h"

namespace gpux::json {

Failure not_a(std::string_view expected, const JsonCursor& cursor) {
  return fmt::format("{} is not {}", json_excerpt(cursor.rest()), expected);
}

std::string with_article(ElementType type) {
  const std::string_view name = to_string(type);
  return fmt::format("{} {}", name.starts_with('i') ? "an" : "a", name);
}

Special read_special(JsonCursor& cursor) noexcept {
  const bool quoted = cursor.peek() == '"';
  JsonCursor inside = cursor;
  if (quoted) ++inside.at;
  const std::string_view word = word_at(inside);
  inside.at += word.size();
  if (quoted && !inside.take('"')) return Special::none;
  Special special = Special::none;
  if (word == "NaN") special = Special::nan;
  if (word == "Infinity") special = Special::infinity;
  if (word == "-Infinity") special = Special::negative_infinity;
  if (special != Special::none) cursor = inside;
  return special;
}

Failure too_large(std::string_view number, ElementType type) {
  return type == ElementType::float8e8m0
             ? fmt::format("{} does not fit float8e8m0 (powers of two up to 2^127, no zero)", json_excerpt(number))
             : fmt::format("{} does not fit {} (largest {})", json_excerpt(number), to_string(type),
                           type == ElementType::float32 ? fmt::format("{}", std::numeric_limits<float>::max())
                                                        : fmt::format("{}", largest_finite(type)));
}

Failure not_a_float(ElementType type, const JsonCursor& cursor) {
  if (word_at(cursor) == "null") return fmt::format("null is not {}: write \"NaN\"", with_article(type));
  return not_a(with_article(type) + " (a number, NaN, Infinity or -Infinity)", cursor);
}

Remainder remainder_of(std::string_view number, double nearest) {
  const int order = compare_magnitudes(decimal_from(number), decimal_of(nearest));
  return order < 0 ? Remainder::below : order > 0 ? Remainder::above : Remainder::exact;
}

Failure out_of_range(std::string_view number, ElementType type, IntegerRange range) {
  return fmt::format("{} does not fit {} ({} to {})", json_excerpt(number), to_string(type), range.lowest,
                     range.highest);
}

Failure read_written_out(std::string_view number, ElementType type, IntegerRange range, Integer& value) {
  if (!is_json_number(number)) return fmt::format("{} is not {}", json_excerpt(number), with_article(type));
  Decimal decimal = decimal_from(number);
  if (!decimal.is_integer()) return fmt::format("{} is not whole, {} is", json_excerpt(number), with_article(type));
  constexpr std::int64_t max_digits = 20;
  if (decimal.exponent > max_digits) return out_of_range(number, type, range);
  decimal.digits.append(static_cast<std::size_t>(decimal.exponent) - decimal.digits.size(), '0');
  value = {.negative = decimal.negative, .magnitude = 0};
  const char* const end = decimal.digits.data() + decimal.digits.size();
  if (!decimal.digits.empty() && std::from_chars(decimal.digits.data(), end, value.magnitude).ec != std::errc{}) {
    return out_of_range(number, type, range);
  }
  return {};
}

}  // namespace gpux::json
