#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/scheduler.h"
#include "server/models/model_statistics.h"
#include "server/models/serving_options.h"
#include "server/models/workers.h"

namespace gpux::server {

struct SessionParts {
  Workers workers;
  ServingOptions options = {};
};

/// The sessions of one ONNX file with the queue before them. All members from any thread.
class ServedSession {
 public:
  ServedSession(SessionParts parts, std::shared_ptr<ModelStatistics> statistics);
  ServedSession(const ServedSession&) = delete;
  ServedSession& operator=(const ServedSession&) = delete;
  ~ServedSession() = default;

  [[nodiscard]] const Runtime& runtime() const noexcept { return *workers_.sessions.front(); }

  /// Inputs and outputs of the ONNX file itself, without a pipeline.
  [[nodiscard]] const Signature& signature() const noexcept { return runtime().info().signature; }

  [[nodiscard]] const Workers& workers() const noexcept { return workers_; }

  [[nodiscard]] const ServingOptions& options() const noexcept { return options_; }

  [[nodiscard]] bool can_batch() const noexcept { return options_.sharing.shared; }

  /// Statistics of the model that the session belongs to.
  [[nodiscard]] const std::shared_ptr<ModelStatistics>& statistics() const noexcept { return statistics_; }

  [[nodiscard]] runtime::Scheduler& scheduler() noexcept { return scheduler_; }

  [[nodiscard]] const runtime::Scheduler& scheduler() const noexcept { return scheduler_; }

  /// Status of each worker process; empty without Isolation::process.
  [[nodiscard]] std::vector<WorkerStatus> worker_processes() const;

  /// Whether one of its worker processes at least is ready and its device takes requests. True without any.
  [[nodiscard]] bool has_a_worker() const;

  /// Whether this process can no longer use any of its devices: Runtime::lost_device().
  [[nodiscard]] bool has_lost_device() const;

  /// Takes the file's own inputs and outputs; no outputs: all. Checks the inputs against the signature and queues them,
  /// or runs them as of Scheduler::submit; counts how it ends, from `arrived`. The deadline is at most the model's time
  /// limit from there. Errors as of Scheduler::submit, and invalid_input.
  runtime::Scheduler::Ticket submit(runtime::InferRequest request, runtime::Completion done,
                                    runtime::Here here = runtime::Here::no);

 private:
  Workers workers_;
  ServingOptions options_;
  std::shared_ptr<ModelStatistics> statistics_;
  runtime::Scheduler scheduler_;  // last: its threads use the rest
};

/// Indices of these outputs in the signature. Error invalid_input where it has no such output.
[[nodiscard]] std::vector<std::size_t> output_indices(const std::vector<std::string>& names,
                                                      const Signature& signature);

}  // namespace gpux::server
