#pragma once

#include <optional>
#include <stop_token>

#include "ort/session.h"

namespace gpux::runtime {

/// Lets another thread stop one run of a model, in this process or in a worker. One per run.
class StopHandle {
 public:
  explicit StopHandle(bool is_in_worker) {
    if (is_in_worker) {
      in_worker_.emplace();
    } else {
      here_.emplace();
    }
  }

  /// The run ends with Error interrupted after the node it is in, or sooner. Thread-safe.
  void stop() {
    if (here_) here_->stop();
    if (in_worker_) in_worker_->request_stop();
  }

  /// For a session of this process; else null.
  [[nodiscard]] ort::RunHandle* here() noexcept { return here_ ? &*here_ : nullptr; }

  /// For a session of a worker.
  [[nodiscard]] std::stop_token in_worker() const noexcept {
    return in_worker_ ? in_worker_->get_token() : std::stop_token();
  }

 private:
  std::optional<ort::RunHandle> here_;
  std::optional<std::stop_source> in_worker_;
};

}  // namespace gpux::runtime
