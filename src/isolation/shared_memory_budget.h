#pragma once

#include <atomic>
#include <cstdint>

namespace gpux::isolation {

/// The memory for results that a worker was given. It may keep what it got for as long as it lives, whatever it is
/// told: nothing is ever given back. Thread-safe.
class SharedMemoryBudget {
 public:
  /// 0: no limit.
  void set_limit(std::uint64_t bytes) noexcept { limit_ = bytes; }

  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }

  /// False: that is more than is left.
  [[nodiscard]] bool take(std::uint64_t bytes) noexcept {
    const std::uint64_t limit = limit_;
    for (std::uint64_t taken = taken_;;) {
      if (limit != 0 && (bytes > limit || taken > limit - bytes)) return false;
      if (taken_.compare_exchange_weak(taken, taken + bytes)) return true;
    }
  }

  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }

  /// What was taken, and not made.
  void give_back(std::uint64_t bytes) noexcept { taken_ -= bytes; }

  /// Whether so much is left now.
  [[nodiscard]] bool has(std::uint64_t bytes) const noexcept {
    const std::uint64_t limit = limit_, taken = taken_;
    return limit == 0 || (bytes <= limit && taken <= limit - bytes);
  }

 private:
  std::atomic<std::uint64_t> limit_ = 0, taken_ = 0;
};

/// Whether a new worker with the same limit has room for results of `bytes`, which this worker's budget refused: this
/// one held memory of earlier runs, and the results fit next to the first block of a run. Pure.
constexpr bool has_room_in_new_worker(std::uint64_t limit, std::uint64_t taken_before_run, std::uint64_t first_block,
                                      std::uint64_t bytes) noexcept {
  return taken_before_run != 0 && first_block <= limit && bytes <= limit - first_block;
}

}  // namespace gpux::isolation
