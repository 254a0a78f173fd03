#include "tensor/decimal.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace gpux {
namespace {

// Further than any finite number of ours, yet ten times it fits 64 bits.
constexpr std::int64_t exponent_limit = std::int64_t{1} << 59;

std::int64_t exponent_from(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::int64_t magnitude = 0;
  for (const char digit : text) magnitude = std::min(exponent_limit, magnitude * 10 + (digit - '0'));
  return negative ? -magnitude : magnitude;
}

}  // namespace

Decimal decimal_from(std::string_view number) {
  Decimal decimal;
  decimal.negative = number.starts_with('-');
  if (decimal.negative) number.remove_prefix(1);
  const std::size_t mark = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, mark);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  decimal.digits = mantissa.substr(0, point);
  if (point < mantissa.size()) decimal.digits += mantissa.substr(point + 1);
  decimal.exponent = static_cast<std::int64_t>(point);
  if (mark < number.size()) decimal.exponent += exponent_from(number.substr(mark + 1));

  const std::size_t leading_zeros = std::min(decimal.digits.find_first_not_of('0'), decimal.digits.size());
  decimal.digits.erase(0, leading_zeros);
  decimal.exponent -= static_cast<std::int64_t>(leading_zeros);
  decimal.digits.erase(decimal.digits.find_last_not_of('0') + 1);
  if (decimal.digits.empty()) decimal.exponent = 0;
  return decimal;
}

Decimal decimal_of(double value) {
  constexpr int max_digits = 767;  // significant digits of the longest double
  std::vector<char> text(max_digits + 16);
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific, max_digits - 1);
  return decimal_from({text.data(), written.ptr});
}

int compare_magnitudes(const Decimal& left, const Decimal& right) noexcept {
  if (left.digits.empty() || right.digits.empty()) {
    return static_cast<int>(right.digits.empty()) - static_cast<int>(left.digits.empty());
  }
  if (left.exponent != right.exponent) return left.exponent < right.exponent ? -1 : 1;
  return left.digits.compare(right.digits);
}

}  // namespace gpux
