#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpux {

/// A decimal number of any length, exactly: ±0.digits × 10^exponent.
struct Decimal {
  bool negative = false;
  std::string digits;  ///< neither begins nor ends with '0'; empty for zero
  std::int64_t exponent = 0;

  [[nodiscard]] bool is_integer() const noexcept {
    return digits.empty() || exponent >= static_cast<std::int64_t>(digits.size());
  }
};

/// `number` is written as JSON writes numbers.
[[nodiscard]] Decimal decimal_from(std::string_view number);

/// The finite value itself, all its digits.
[[nodiscard]] Decimal decimal_of(double value);

/// Negative, zero or positive as |left| is less than, equal to or more than |right|.
[[nodiscard]] int compare_magnitudes(const Decimal& left, const Decimal& right) noexcept;

}  // namespace gpux
