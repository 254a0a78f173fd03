#include "server/requests/histogram.h"

#include <algorithm>
#include <new>

namespace gpux::server {

void Histogram::add(std::chrono::nanoseconds duration, const SpanContext* traced) noexcept {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto place = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  counts_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(duration.count(), std::memory_order_relaxed);
  if (traced == nullptr) return;
  try {
    const std::lock_guard lock(mutex_);
    if (!exemplars_) exemplars_ = std::make_unique<std::array<Exemplar, bounds.size() + 1>>();
    (*exemplars_)[static_cast<std::size_t>(place)] = {traced->trace, traced->span, seconds,
                                                      std::chrono::system_clock::now()};
  } catch (const std::bad_alloc&) {  // it is counted all the same
  }
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

std::optional<Exemplar> Histogram::exemplar(std::size_t index) const noexcept {
  const std::lock_guard lock(mutex_);
  if (!exemplars_ || (*exemplars_)[index].trace == TraceId{}) return std::nullopt;
  return (*exemplars_)[index];
}

}  // namespace gpux::server
