#include "server/requests/histogram.h"

#include <algorithm>

namespace gpux::server {

void Histogram::add(std::chrono::nanoseconds duration) noexcept {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto place = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  counts_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(duration.count(), std::memory_order_relaxed);
}

std::uint64_t Histogram::count() const noexcept {
  std::uint64_t total = 0;
  for (const auto& count : counts_) total += count.load(std::memory_order_relaxed);
  return total;
}

std::chrono::nanoseconds Histogram::sum() const noexcept {
  return std::chrono::nanoseconds(nanoseconds_.load(std::memory_order_relaxed));
}

std::uint64_t Histogram::in_bucket(std::size_t index) const noexcept {
  return counts_[index].load(std::memory_order_relaxed);
}

}  // namespace gpux::server
