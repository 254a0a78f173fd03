#include "isolation/restart_delay.h"

#include <algorithm>
#include <cstdint>

namespace gpux::isolation {

unsigned failures_in_a_row(unsigned before, std::chrono::milliseconds lived) noexcept {
  return lived >= calm_time ? 1 : before + 1;
}

std::chrono::milliseconds restart_delay(unsigned failures, std::chrono::milliseconds max) noexcept {
  if (failures < 2) return std::chrono::milliseconds(0);
  constexpr std::chrono::milliseconds first{100};
  constexpr unsigned most_doublings = 20;
  const auto delay = first * (std::int64_t{1} << std::min(failures - 2, most_doublings));
  return std::min<std::chrono::milliseconds>(delay, max);
}

}  // namespace gpux::isolation
