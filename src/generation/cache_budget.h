#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gpux::generation {

class CacheShare;

/// Limits of the memory for the keys and values of a process.
struct CacheLimits {
  std::uint64_t limit_bytes = 0;
  std::uint64_t free_bytes = 0;  ///< the most that a user may give

  bool operator==(const CacheLimits&) const = default;
};

/// The limits where models take `model_bytes` of `usable_bytes`, or of `memory_bytes` if that is less and not 0. Pure.
CacheLimits cache_limits(std::uint64_t usable_bytes, std::uint64_t memory_bytes, std::uint64_t model_bytes);

/// The memory that the keys and values of several engines take together. Where it is short, the text that came first
/// goes on: who has younger ones gives up theirs until it has what it needs, so that each text comes to its end. All
/// members from any thread.
class CacheBudget {
 public:
  /// The budget of this process: half of its usable memory that models leave, at least what one engine needs for a text
  /// or was given by its user.
  static const std::shared_ptr<CacheBudget>& of_process();

  explicit CacheBudget(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  CacheBudget(const CacheBudget&) = delete;
  CacheBudget& operator=(const CacheBudget&) = delete;

  /// Memory that models and caches of the process may take together; 0: what the machine has. Caches get an eighth of
  /// it at least.
  void set_memory(std::uint64_t bytes);
  /// Measures how much memory models take now, and adapts the limit: that of this process and `worker_bytes` of worker
  /// processes. Does nothing where a limit was given.
  void measure(std::uint64_t worker_bytes);
  /// measure(worker_bytes) with the `worker_bytes` of the last call.
  void measure();

  [[nodiscard]] std::uint64_t limit_bytes() const;
  /// The most that a user may give one engine.
  [[nodiscard]] std::uint64_t free_bytes() const;
  [[nodiscard]] std::uint64_t held_bytes() const;

  /// The number of a text: a larger one came later.
  std::uint64_t next_age() noexcept { return ++last_age_; }

 private:
  friend class CacheShare;

  CacheBudget();  // of the process

  [[nodiscard]] std::uint64_t held() const noexcept;
  [[nodiscard]] std::uint64_t limit() const noexcept;
  /// Asks all other shares that hold memory to release it.
  void ask_others(const CacheShare* share) const;
  [[nodiscard]] bool has_older_waiter(const CacheShare* share, std::uint64_t age) const noexcept;

  mutable std::mutex mutex_;
  bool is_measured_ = false;
  std::uint64_t memory_ = 0, worker_bytes_ = 0, limit_ = 0, free_ = ~std::uint64_t{0};
  std::atomic<std::uint64_t> last_age_ = 0;
  std::vector<CacheShare*> shares_;
};

/// The share of a budget that one engine holds. One thread at a time; `release` is called by other shares, on their
/// threads, when memory is short: what can be given up without a loss should be, soon. It must return at once, and call
/// no share.
class CacheShare {
 public:
  /// `min_bytes`: what the limit is at least as long as the share is there.
  CacheShare(std::shared_ptr<CacheBudget> budget, std::uint64_t min_bytes, std::function<void()> release);
  ~CacheShare();
  CacheShare(const CacheShare&) = delete;
  CacheShare& operator=(const CacheShare&) = delete;

  /// Takes more or gives back until it has so many, and waits no longer. False, and nothing changed, where the limit
  /// would be exceeded (others are asked to release what they can), or an older text than `age`, the oldest of this
  /// engine, waits for memory.
  bool resize(std::uint64_t bytes, std::uint64_t age);
  /// Gives back what is beyond so many.
  void shrink(std::uint64_t bytes);

  /// Waits for memory for a text of that age: others are asked to release theirs. True: no older text waits, so that
  /// what this engine has may stay until the next resize(); false: it must give up all.
  bool wait(std::uint64_t age);
  /// Withdraws wait(): the texts of the engine have ended.
  void stop_waiting();

 private:
  friend class CacheBudget;

  std::shared_ptr<CacheBudget> budget_;
  std::uint64_t min_bytes_;
  std::function<void()> release_;
  // Under the budget's mutex.
  std::uint64_t bytes_ = 0;
  std::optional<std::uint64_t> waiting_age_;
};

}  // namespace gpux::generation
