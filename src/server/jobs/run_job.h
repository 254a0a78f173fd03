#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "runtime/scheduling/scheduler.h"
#include "server/models/served_session.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// The runs of one request on their way through a session's queue: a text or an image each, for instance. Only a few of
/// them are prepared and wait in the queue at a time: so a long list keeps neither another client's text waiting for
/// all of it, nor the queue full, nor much memory. Where the first run is queued, the others are too, however full the
/// queue is. All members from any thread.
class RunJob : public std::enable_shared_from_this<RunJob> {
 public:
  struct Work {
    std::size_t count = 0;
    std::string item;      ///< what errors call a run of a list: "text"
    bool is_list = false;  ///< also where there is one
    /// Prepares the model's inputs of a run; empty: one unit of work is done, and there is more: call it again. Called
    /// by several threads at once, but by one for each run. Error invalid_input.
    std::function<std::optional<NamedValues>(std::size_t index)> prepare;
    /// The memory that preparing the run takes; above work_here_bytes the readers do it. Null: little.
    std::function<std::uint64_t(std::size_t index)> cost = nullptr;
    /// Queues what was prepared. Null: ServedSession::submit().
    std::function<void(std::size_t index, NamedValues&& inputs, bool is_admitted, runtime::Completion done)> queue =
        nullptr;
    /// Ends what queue() has begun, after an error. May be null.
    std::function<void()> stop_others = nullptr;
    /// Receives the outputs of a run; returns the bytes of memory that are kept of them. Called by several threads at
    /// once, but once for each run.
    std::function<std::uint64_t(std::size_t index, NamedValues&& outputs)> take;
    /// Runs that are prepared or queued at a time; 0: two for each of the session's workers.
    std::size_t max_in_flight = 0;
    RequestWork request;        ///< its deadline is that of the runs
    runtime::InferRequest run;  ///< what all runs have: its `is_admitted` is for the first, the others are admitted
  };

  /// Times of the runs that have ended.
  struct Times {
    runtime::InferTimes slowest;
    std::chrono::nanoseconds queue{0}, compute{0};  ///< sums over the runs
  };

  /// Called once, on a thread of the model's or the one that calls start(), when all results were taken, or with the
  /// error of the first run that failed. What take() kept counts against the request's memory until then.
  using Done = std::function<void(const std::optional<Error>& error, const Times& times)>;

  RunJob(std::shared_ptr<ServedSession> session, Work work, Done done);

  void start();

  /// Nobody waits any more.
  void cancel();

 private:
  void go_on();
  bool prepare_unit(std::size_t index);
  void queue(std::size_t index, NamedValues&& inputs);
  void take(std::size_t index, runtime::InferAnswer&& answer);
  void begin_others();
  void fail(std::size_t index);
  void end(const std::optional<Error>& error);
  [[nodiscard]] Error within(const Error& error, std::size_t index) const;

  std::shared_ptr<ServedSession> session_;
  Work work_;
  std::size_t max_in_flight_;

  std::mutex mutex_;
  Done done_;  // null after the end
  Times times_;
  std::size_t next_ = 0, in_flight_ = 0, missing_;
  bool is_admitted_, has_begun_ = false;
  std::vector<runtime::Scheduler::Ticket> tickets_;
  MemoryShare kept_;
};

}  // namespace gpux::server
