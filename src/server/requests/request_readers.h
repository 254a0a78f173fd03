#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cancellation.h"
#include "gpux/error.h"

namespace gpux::server {

struct ReadersOptions {
  unsigned threads = 2;          ///< at most; at least 1
  std::size_t max_tasks = 1024;  ///< that wait; beyond: refused
  /// A task above this cost is heavy: of several threads one is left to the others.
  std::uint64_t heavy_cost = 20 << 20;
};

/// Threads that read and prepare long requests, so that those that receive and send go on meanwhile. A task is done a
/// unit at a time, and tasks take turns: a client that has left, a deadline or the end of the server costs at most one
/// unit of each thread. Threads are started when first needed. All members from any thread.
class RequestReaders {
 public:
  struct Task {
    Cancellation cancellation;
    /// The memory that a unit takes, in bytes, as a measure of its work.
    std::uint64_t cost = 0;
    /// Does a unit of the work; true: there is more. Called by one thread at a time. What it throws ends the task.
    std::function<bool()> unit;
    /// Called instead of the next unit: with what the unit threw, with the error of the cancellation, or with
    /// interrupted after stop(). Must not throw.
    std::function<void(const Error&)> failed;
    /// stop() calls `failed` also while a unit is in progress, so that nobody waits for it: of what the two do, the
    /// second must change nothing.
    bool may_fail_beside_unit = false;
    /// Whether the task continues a request that was accepted: it is not refused if too many wait.
    bool is_admitted = false;
  };

  explicit RequestReaders(const ReadersOptions& options) : options_(options) {}

  /// stop(), and waits for the units in progress.
  ~RequestReaders();
  RequestReaders(const RequestReaders&) = delete;
  RequestReaders& operator=(const RequestReaders&) = delete;

  /// Errors resource_exhausted where too many tasks wait, interrupted after stop(); `failed` is not called then.
  void post(Task task);

  /// Ends the tasks that wait, and those in progress after their unit (or beside it, where they allow that); takes no
  /// more.
  void stop();

  /// Number of waiting tasks.
  [[nodiscard]] std::size_t waiting() const;

 private:
  void work();
  void start_thread();
  [[nodiscard]] bool can_take() const noexcept;
  [[nodiscard]] Task take();

  [[nodiscard]] bool is_heavy(const Task& task) const noexcept { return task.cost > options_.heavy_cost; }

  ReadersOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> light_, heavy_;
  std::vector<const Task*> in_progress_;
  std::size_t idle_ = 0, heavy_running_ = 0, light_in_a_row_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gpux::server
