#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string_view>
#include <tuple>

#include "server/requests/histogram.h"

namespace gpux::server {

/// How long the requests of each route took until their answers were given, by status. Any thread.
class RouteFigures {
 public:
  /// `method`, `route`: of the table of routes, whose texts outlive this.
  /// `traced`: as of Histogram::add().
  void add(std::string_view method, std::string_view route, int status, std::chrono::nanoseconds duration,
           const SpanContext* traced = nullptr);

  /// Calls `take` for each that there was, in the order of route, method and status.
  void for_each(const std::function<void(std::string_view method, std::string_view route, int status,
                                         const Histogram& durations)>& take) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::tuple<std::string_view, std::string_view, int>, std::unique_ptr<Histogram>> all_;
};

}  // namespace gpux::server
