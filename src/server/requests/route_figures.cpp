#include "server/requests/route_figures.h"

#include <mutex>

namespace gpux::server {

void RouteFigures::add(std::string_view method, std::string_view route, int status, std::chrono::nanoseconds duration,
                       const SpanContext* traced) {
  const std::tuple key(route, method, status);
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = all_.find(key); found != all_.end()) return found->second->add(duration, traced);
  }
  const std::unique_lock lock(mutex_);
  std::unique_ptr<Histogram>& durations = all_[key];
  if (!durations) durations = std::make_unique<Histogram>();
  durations->add(duration, traced);
}

void RouteFigures::for_each(const std::function<void(std::string_view method, std::string_view route, int status,
                                                     const Histogram& durations)>& take) const {
  const std::shared_lock lock(mutex_);
  for (const auto& [key, durations] : all_) take(std::get<1>(key), std::get<0>(key), std::get<2>(key), *durations);
}

}  // namespace gpux::server
