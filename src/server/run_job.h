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
#include "runtime/scheduler.h"
#include "server/served_model.h"

namespace gpux::server {

/// The runs of one request on their way through a model's queue: a text each, for instance. Only a few of them wait in
/// the queue at a time: so a long list keeps neither another client's text waiting for all of it, nor the queue full.
/// All members from any thread.
class RunJob : public std::enable_shared_from_this<RunJob> {
 public:
  struct Work {
    std::size_t count = 0;
    std::string item;                  ///< what errors call a run where there are several: "text"
    std::vector<std::string> outputs;  ///< of the model; empty: all
    /// The model's inputs of a run. Called by several threads at once, each run once. Error invalid_input.
    std::function<NamedValues(std::size_t index)> prepare;
    /// What the model gave for it. Called by several threads at once, each run once.
    std::function<void(std::size_t index, NamedValues&& outputs)> take;
    int priority = 0;
    std::optional<std::chrono::steady_clock::time_point> deadline;
    std::chrono::steady_clock::time_point arrived;
  };

  /// Called once, on a thread of the model's or the one that calls start(), when all results were taken, or with the
  /// error of the first run that failed. The times are those of the slowest run.
  using Done = std::function<void(const std::optional<Error>& error, const runtime::InferTimes& slowest)>;

  RunJob(std::shared_ptr<ServedModel> model, Work work, Done done);

  void start();

  /// Nobody waits any more.
  void cancel();

 private:
  void go_on();
  void run(std::size_t index);
  void end(const std::optional<Error>& error);
  [[nodiscard]] Error within(const Error& error, std::size_t index) const;

  std::shared_ptr<ServedModel> model_;
  Work work_;
  std::size_t most_in_flight_;

  std::mutex mutex_;
  Done done_;  // null after the end
  runtime::InferTimes slowest_;
  std::size_t next_ = 0, in_flight_ = 0, missing_;
  std::vector<runtime::Scheduler::Ticket> tickets_;
};

}  // namespace gpux::server
