#include "server/grpc/write_watch.h"

#include <algorithm>
#include <utility>

namespace gpux::server {

using Clock = std::chrono::steady_clock;

WriteWatch::WriteWatch(std::chrono::milliseconds timeout, std::uint64_t min_bytes_per_second)
    : timeout_(timeout),
      min_bytes_per_second_(std::max<std::uint64_t>(min_bytes_per_second, 1)),
      thread_([this](const std::stop_token& stop) { sweep(stop); }) {}

WriteWatch::~WriteWatch() = default;

void WriteWatch::add(WatchedWrite& write, std::uint64_t bytes) {
  write.deadline_ = Clock::now() + timeout_ + std::chrono::milliseconds(bytes * 1000 / min_bytes_per_second_);
  const std::lock_guard lock(mutex_);
  write.place_ = writes_.size();
  writes_.push_back(&write);
}

void WriteWatch::remove(WatchedWrite& write) {
  const std::lock_guard lock(mutex_);
  take_out(write);
}

void WriteWatch::take_out(WatchedWrite& write) {
  const std::size_t place = write.place_;
  if (place == WatchedWrite::nowhere) return;
  writes_[place] = writes_.back();
  writes_[place]->place_ = place;
  writes_.pop_back();
  write.place_ = WatchedWrite::nowhere;
}

void WriteWatch::sweep(const std::stop_token& stop) {
  const auto interval = std::max<std::chrono::milliseconds>(timeout_ / 20, std::chrono::milliseconds(1));
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    (void)ending_.wait_for(lock, stop, interval, [] { return false; });
    const Clock::time_point now = Clock::now();
    // Backwards: what is taken out is replaced by the last, which has been looked at.
    for (std::size_t i = writes_.size(); i-- > 0;) {
      WatchedWrite& write = *writes_[i];
      if (now < write.deadline_) continue;
      take_out(write);
      write.give_up();
    }
  }
}

}  // namespace gpux::server
