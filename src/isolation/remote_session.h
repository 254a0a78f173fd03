#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/runtime.h"
#include "gpux/tensor.h"
#include "isolation/load_message.h"
#include "isolation/value_encoding.h"

namespace gpux::isolation {

/// The worker ended during a run that it had taken, which may be the run's fault: it is not repeated. Or it ended, and
/// a call was for that worker alone.
class WorkerEnded : public Error {
 public:
  using Error::Error;

  static WorkerEnded before_run(const std::string& message) {
    WorkerEnded ended(ErrorCode::internal, message);
    ended.had_taken_run_ = false;
    return ended;
  }

  /// False: the worker never saw the run, which cannot be its fault.
  [[nodiscard]] bool had_taken_run() const noexcept { return had_taken_run_; }

 private:
  bool had_taken_run_ = true;
};

/// What a run does while the worker is being started.
enum class WorkerAbsence : std::uint8_t {
  wait,  ///< for the worker, or for a stop
  fail,  ///< with provider_unavailable: another device can run it
};

/// Where a run was done, and how long it was there.
struct WorkerRun {
  int process_id = 0;  ///< 0: in no worker
  std::chrono::nanoseconds time{0};
};

/// A model that is loaded in a worker process, which is started again whenever it ends. All calls from any thread.
class RemoteSession {
 public:
  /// Starts the worker and waits until it has loaded the model. `name`: of the model, for messages. `outputs`: that the
  /// model has, with its steps; it may have one more with LoadOptions::pooled_output, of float32. A worker that answers
  /// otherwise is broken or hostile.
  /// Errors as of Runtime; usage for options that are not supported in a worker, or where there is no program to start;
  /// storage where its files were changed meanwhile; internal where the worker ends meanwhile.
  RemoteSession(const std::filesystem::path& model, const std::string& name, const LoadOptions& options,
                std::vector<SignatureEntry> outputs);
  /// Ends the worker. No run may be in progress.
  ~RemoteSession();
  RemoteSession(const RemoteSession&) = delete;
  RemoteSession& operator=(const RemoteSession&) = delete;

  /// What the first worker loaded. Each later worker must have loaded the same: difference().
  [[nodiscard]] const LoadReport& report() const noexcept;

  /// Runs the model. `outputs`: indices into report().output_names. Runs of several threads are independent.
  /// After a stop the run ends with Error interrupted when its node ends; if it has not ended within
  /// LoadOptions::stop_grace, its worker is killed and replaced.
  /// A run that the worker had not taken when it ended was not begun: it is repeated on the next worker, at most
  /// max_attempts times in all, unless `absence` has it fail.
  /// Errors as of ort::Session::run(); WorkerEnded (internal); provider_unavailable while a restart is delayed,
  /// after the last attempt, and as `absence` says.
  /// `ran`: gets the worker of a run that succeeds; null: nobody asks.
  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                const std::stop_token& stop, WorkerAbsence absence = WorkerAbsence::wait,
                                WorkerRun* ran = nullptr) const;

  /// The number of the worker that is ready, from 1; each has another. Waits while one is being started. Errors
  /// interrupted, provider_unavailable as of run().
  [[nodiscard]] std::uint64_t wait_for_worker(const std::stop_token& stop) const;

  /// Calls the service that the worker of this number has beside the model, which may remember earlier calls.
  /// `expected`: what it answers. As run() otherwise. Errors of the service; WorkerEnded where that worker has ended.
  [[nodiscard]] NamedValues call(std::uint64_t worker, const NamedValues& inputs, const ExpectedValues& expected,
                                 const std::stop_token& stop) const;

  /// A run that no worker takes is not what ends them: only a loop without end has to be avoided.
  static constexpr int max_attempts = 20;

  /// From now on so many runs compute at the same time, in this worker and those after it; the others copy their
  /// values. At the beginning, all compute. `runs`: 1 or more.
  void limit_computing(std::size_t runs) const;

  [[nodiscard]] WorkerStatus status() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::isolation
