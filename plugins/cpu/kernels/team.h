#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

namespace gpux_cpu {

/// Runs work(part) for all parts below `parts`, in parallel if possible, and returns when all are done.
using ParallelFor = std::function<void(std::size_t parts, const std::function<void(std::size_t)>& work)>;

/// Threads that stay together for work of many short steps: a leader and followers. No step waits for a thread to
/// start.
class Team {
 public:
  /// Calls `leader` in the first of `threads` parts of `parallel_for` that starts. The others are followers: they run
  /// parts of its steps until it returns. Fewer threads than requested are fine, even one. Throws what `leader` does.
  static void run(std::size_t threads, const ParallelFor& parallel_for, const std::function<void(Team&)>& leader);

  /// For the lead alone: work(part) for all parts below `parts`, at most 2^32 - 1. Returns when all are done, and
  /// throws what one of them has thrown.
  void run_parts(std::size_t parts, const std::function<void(std::size_t)>& work);

  /// Number of threads, as requested.
  [[nodiscard]] std::size_t threads() const noexcept { return threads_; }

 private:
  explicit Team(std::size_t threads) noexcept : threads_(threads) {}

  std::optional<std::size_t> claim_part() noexcept;
  void run_part(std::size_t part) noexcept;
  void follow() noexcept;

  const std::size_t threads_;
  std::atomic<bool> has_leader_ = false, is_finished_ = false;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::uint32_t step_ = 0;
  std::atomic<std::uint64_t> unclaimed_ =
      0;  // the step number, and in the lower 32 bits how many of its parts are unclaimed
  std::atomic<std::size_t> completed_ = 0;  // of the step's parts
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

/// The end of the range `index` of `ranges`, each shorter than the one before it: the last ones make up for threads
/// that started late, or that others held up. Pure.
constexpr std::size_t end_of_shrinking_range(std::size_t count, std::size_t ranges, std::size_t index) noexcept {
  const std::size_t left = ranges - 1 - index;
  return count - count * left * left / (ranges * ranges);
}

/// Divides `count` items among the threads of the team: work(first, last) for up to `parts_per_thread` ranges for each
/// thread, none of them empty or larger than a thread's share. Where there are several for each, they shrink, and start
/// in ascending order. Without a team this thread does all.
template <typename Work>
void distribute(Team* team, std::size_t count, std::size_t parts_per_thread, const Work& work) {
  const std::size_t parts = team == nullptr ? 1 : std::min(team->threads() * parts_per_thread, count);
  if (parts <= 1) {
    if (count > 0) work(std::size_t{0}, count);
    return;
  }
  const bool shrinks = parts_per_thread > 1 && parts < count;
  const auto end_of = [&](std::size_t range) {
    return shrinks ? end_of_shrinking_range(count, parts, range) : count * (range + 1) / parts;
  };
  const auto run_part = [&](std::size_t part) {
    const std::size_t range = parts - 1 - part;  // parts start in descending order
    const std::size_t first = range == 0 ? 0 : end_of(range - 1), last = end_of(range);
    if (first < last) work(first, last);
  };
  team->run_parts(parts, std::ref(run_part));
}

}  // namespace gpux_cpu
