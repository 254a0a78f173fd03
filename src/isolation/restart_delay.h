#pragma once

#include <chrono>

namespace gpux::isolation {

/// A worker that ran for so long does not count as one that keeps failing.
inline constexpr std::chrono::milliseconds calm_time{60'000};

/// How many workers in a row have ended early, with one more that ran for `lived`. Pure.
unsigned failures_in_a_row(unsigned before, std::chrono::milliseconds lived) noexcept;

/// How long to wait before the next start, after so many failures in a row (1: the first): 0, then 100 ms, doubled each
/// time, at most `max`. Pure.
std::chrono::milliseconds restart_delay(unsigned failures, std::chrono::milliseconds max) noexcept;

}  // namespace gpux::isolation
