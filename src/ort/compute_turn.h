#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace gpux::ort {

/// How many runs compute at the same time, while others copy their values: a run takes a turn in the order in which it
/// asked. Any thread may call.
class ComputeTurn {
 public:
  /// `runs`: 1 or more.
  explicit ComputeTurn(std::size_t runs) : runs_(runs), free_(runs) {}

  [[nodiscard]] std::size_t runs() const noexcept { return runs_; }

  /// Waits for a turn. False: `is_stopped` was set and wake() called, and there is none to give back.
  [[nodiscard]] bool take(const std::atomic<bool>& is_stopped);
  void give_back();
  /// Lets those that wait look whether they are stopped.
  void wake();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint64_t> waiting_;
  std::uint64_t last_ = 0;
  std::size_t runs_, free_;
};

}  // namespace gpux::ort
