#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace gpux::server {

/// Calls what is due, on a thread of its own. All calls from any thread.
class TimeLimits {
 public:
  using Clock = std::chrono::steady_clock;

  TimeLimits();
  ~TimeLimits();
  TimeLimits(const TimeLimits&) = delete;
  TimeLimits& operator=(const TimeLimits&) = delete;

  /// `late` must not throw.
  void at(Clock::time_point when, std::function<void()> late);

  /// Ends the thread: callbacks that are not due are never called, and the one in progress is waited for. Later at()
  /// calls are ignored.
  void end();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::function<void()>> limits_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace gpux::server
