#include "server/requests/time_limits.h"

#include <utility>

#include "base/failure_of.h"

namespace gpux::server {

TimeLimits::TimeLimits() : thread_([this] { watch(); }) {}

TimeLimits::~TimeLimits() {
  end();
}

void TimeLimits::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    limits_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TimeLimits::at(Clock::time_point when, std::function<void()> late) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    const auto place = limits_.emplace(when, std::move(late));
    is_first = place == limits_.begin();
  }
  if (is_first) changed_.notify_all();
}

void TimeLimits::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (limits_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point first = limits_.begin()->first; first > Clock::now()) {
      changed_.wait_until(lock, first);
    } else {
      const std::function<void()> late = std::move(limits_.begin()->second);
      limits_.erase(limits_.begin());
      lock.unlock();
      call_guarded(late);
      lock.lock();
    }
  }
}

}  // namespace gpux::server
