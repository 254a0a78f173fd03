#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

namespace gpux::server::console {

/// A value that takes long to read, and is kept for a while. Thread-safe; a thread that asks while it is read waits.
template <typename Value>
class KeptValue {
 public:
  using Clock = std::chrono::steady_clock;

  explicit KeptValue(Clock::duration span) : span_(span) {}

  /// The value as it was read at most the span before `now`; otherwise `read` is called. Its errors are the caller's.
  Value at(Clock::time_point now, const std::function<Value()>& read) {
    const std::lock_guard lock(mutex_);
    if (!value_ || now - read_at_ > span_) {
      value_ = read();
      read_at_ = now;
    }
    return *value_;
  }

 private:
  const Clock::duration span_;
  std::mutex mutex_;
  std::optional<Value> value_;
  Clock::time_point read_at_;
};

}  // namespace gpux::server::console
