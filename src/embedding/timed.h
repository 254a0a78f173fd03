#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <mutex>

#include "embedding/embed_times.h"

namespace gpux::embedding {

/// The processor time of the calling thread, in nanoseconds: what other threads take from it does not count.
inline std::uint64_t thread_time() noexcept {
  timespec time{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/// Adds the time of its thread while it lives to a stage; without one, nothing.
class Timed {
 public:
  using Stage = std::atomic<std::uint64_t> EmbedTimes::*;

  Timed(EmbedTimes* times, Stage stage) noexcept : times_(times), stage_(stage) {
    if (times_ != nullptr) start_ = thread_time();
  }

  ~Timed() {
    if (times_ != nullptr) times_->*stage_ += thread_time() - start_;
  }

  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  EmbedTimes* times_;
  Stage stage_;
  std::uint64_t start_ = 0;
};

/// A lock whose times of being held are added up, waits left out.
class TimedLock {
 public:
  TimedLock(std::mutex& mutex, EmbedTimes* times) : lock_(mutex), times_(times) { begin(); }

  ~TimedLock() {
    if (lock_.owns_lock()) end();
  }

  TimedLock(const TimedLock&) = delete;
  TimedLock& operator=(const TimedLock&) = delete;

  void lock() {
    lock_.lock();
    begin();
  }

  void unlock() {
    end();
    lock_.unlock();
  }

  template <typename Condition>
  void wait(std::condition_variable& changed, const Condition& condition) {
    while (!condition()) wait_for_change(changed);
  }

  void wait_for_change(std::condition_variable& changed) {
    end();
    changed.wait(lock_);
    begin();
  }

 private:
  void begin() noexcept {
    if (times_ != nullptr) start_ = thread_time();
  }

  void end() noexcept {
    if (times_ == nullptr) return;
    const std::uint64_t held = thread_time() - start_;
    ++times_->locks;
    times_->locked += held;
    std::uint64_t longest = times_->longest_lock;
    while (longest < held && !times_->longest_lock.compare_exchange_weak(longest, held)) {
    }
  }

  std::unique_lock<std::mutex> lock_;
  EmbedTimes* times_;
  std::uint64_t start_ = 0;
};

}  // namespace gpux::embedding
