#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gpux {

class MemoryReclaimer;

/// A limit on the memory that many requests hold together. Shared by threads.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  /// False, and nothing taken, if the limit would be exceeded.
  [[nodiscard]] bool take(std::uint64_t bytes) noexcept;
  void give_back(std::uint64_t bytes) noexcept;

  /// Asks every MemoryReclaimer for memory. What they release is available a little later: try again then.
  void reclaim();

  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t limit_bytes() const noexcept { return limit_; }

 private:
  std::atomic<std::uint64_t> held_{0};
  friend class MemoryReclaimer;

  std::uint64_t limit_;
  std::mutex mutex_;
  std::vector<MemoryReclaimer*> reclaimers_;
};

/// Somebody who can release memory of a budget when it is short, for as long as this object lives.
class MemoryReclaimer {
 public:
  /// `release` is called by MemoryBudget::reclaim() on its thread, one call at a time. It must not block.
  MemoryReclaimer(std::shared_ptr<MemoryBudget> budget, std::function<void()> release);
  ~MemoryReclaimer();
  MemoryReclaimer(const MemoryReclaimer&) = delete;
  MemoryReclaimer& operator=(const MemoryReclaimer&) = delete;

 private:
  friend class MemoryBudget;

  std::shared_ptr<MemoryBudget> budget_;
  std::function<void()> release_;
};

/// Bytes taken from a budget for as long as this object lives. Movable; one thread at a time.
class MemoryShare {
 public:
  MemoryShare() = default;

  explicit MemoryShare(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}

  ~MemoryShare() { release(); }

  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  MemoryShare(MemoryShare&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

  MemoryShare& operator=(MemoryShare&& other) noexcept {
    if (this != &other) {
      release();
      budget_ = std::move(other.budget_);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }

  /// Takes `bytes` more; false, and nothing taken, if the budget's limit would be exceeded. Without a budget: true.
  [[nodiscard]] bool grow(std::uint64_t bytes) noexcept;
  /// Grows or shrinks to `bytes`; false, and unchanged, if the budget's limit would be exceeded.
  [[nodiscard]] bool resize(std::uint64_t bytes) noexcept;
  /// Returns all of the reserved memory to the budget.
  void release() noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace gpux
