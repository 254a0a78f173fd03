#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpux::generation {

/// Moves the first ones of `order` by `is_before`, a strict order, that together have at least the share p to its
/// beginning, and returns how many they are: the fewest, or all. Only where the border is searched is anything sorted:
/// the comparisons grow with the size of `order`, whatever the shares are. `shares`: by what `order` has.
template <typename Before>
std::size_t leading_share(std::span<std::uint32_t> order, std::span<const double> shares, double p,
                          const Before& is_before) {
  constexpr std::ptrdiff_t few = 64;
  auto begin = order.begin(), end = order.end();
  double sum = 0;  // of those before `begin`, which are in
  while (end - begin > few) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, is_before);
    double with_half = sum;
    for (auto it = begin; it != middle; ++it) with_half += shares[*it];
    if (with_half < p) {
      sum = with_half;
      begin = middle;
    } else {
      end = middle;
    }
  }
  std::sort(begin, end, is_before);
  for (; begin != end && sum < p; ++begin) sum += shares[*begin];
  return static_cast<std::size_t>(begin - order.begin());
}

}  // namespace gpux::generation
