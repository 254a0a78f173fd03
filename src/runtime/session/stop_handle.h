#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "isolation/remote_session.h"
#include "ort/session.h"

namespace gpux::runtime {

/// Where the runs of a session are done.
enum class RunPlaces : std::uint8_t {
  here,    ///< in this process
  worker,  ///< in a worker process
  both,    ///< each of its parts in one of them
};

/// Lets another thread stop one run of a model, in this process or in a worker. One per run.
class StopHandle {
 public:
  explicit StopHandle(RunPlaces places) {
    if (places != RunPlaces::here) in_worker_.emplace();
    if (places != RunPlaces::worker) here_.emplace();
  }

  /// The run ends with Error interrupted after the node it is in, or sooner. Thread-safe.
  void stop() {
    if (here_) here_->stop();
    if (in_worker_) in_worker_->request_stop();
  }

  /// Handle for stopping a run of a session in this process; null if the session is in a worker.
  [[nodiscard]] ort::RunHandle* here() noexcept { return here_ ? &*here_ : nullptr; }

  /// Token for stopping a run of a session in a worker process.
  [[nodiscard]] std::stop_token in_worker() const noexcept {
    return in_worker_ ? in_worker_->get_token() : std::stop_token();
  }

  /// The worker that the run was done in, once it has ended.
  [[nodiscard]] isolation::WorkerRun& worker_run() noexcept { return worker_run_; }

 private:
  std::optional<ort::RunHandle> here_;
  std::optional<std::stop_source> in_worker_;
  isolation::WorkerRun worker_run_;
};

}  // namespace gpux::runtime
