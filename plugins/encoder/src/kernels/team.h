#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

namespace gpux_encoder {

/// Runs work(part) for all parts below `parts`, side by side where it can, and returns when all are done.
using ParallelFor = std::function<void(std::size_t parts, const std::function<void(std::size_t)>& work)>;

/// Threads that stay together for work of many short steps, so that none of these waits for threads to begin.
class Team {
 public:
  /// Calls `lead` on the first of `threads` parts of `parallel_for` that begins; the others help with what it shares
  /// out until it returns. As few may come as will, even one after the other. Throws what `lead` does.
  static void run(std::size_t threads, const ParallelFor& parallel_for, const std::function<void(Team&)>& lead);

  /// For the lead alone: work(part) for all parts below `parts`, at most 2^32 - 1. Returns when all are done, and
  /// throws what one of them has thrown.
  void share(std::size_t parts, const std::function<void(std::size_t)>& work);

  /// So many were asked for.
  [[nodiscard]] std::size_t threads() const noexcept { return threads_; }

 private:
  explicit Team(std::size_t threads) noexcept : threads_(threads) {}

  std::optional<std::size_t> take() noexcept;
  void do_part(std::size_t part) noexcept;
  void help() noexcept;

  const std::size_t threads_;
  std::atomic<bool> is_led_ = false, has_ended_ = false;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::uint32_t turn_ = 0;
  std::atomic<std::uint64_t> open_ = 0;  // the turn, and below it how many of its parts nobody has taken
  std::atomic<std::size_t> done_ = 0;    // of the turn's parts
  std::mutex failing_;
  std::exception_ptr failure_;
};

}  // namespace gpux_encoder
