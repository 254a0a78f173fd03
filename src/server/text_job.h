#pragma once

#include <memory>
#include <optional>

#include "pipeline/pipeline.h"
#include "runtime/scheduler.h"
#include "server/run_job.h"
#include "server/served_model.h"

namespace gpux::server {

/// A request on its way through a model. Copies are the same request. cancel() from any thread.
class Pending {
 public:
  Pending() = default;

  Pending(std::shared_ptr<ServedModel> model, runtime::Scheduler::Ticket ticket)
      : model_(std::move(model)), ticket_(ticket) {}

  explicit Pending(std::shared_ptr<RunJob> job) : job_(std::move(job)) {}

  /// Whether it was under way when it was made: not answered on the spot.
  explicit operator bool() const noexcept { return ticket_ != 0 || job_ != nullptr; }

  /// Nobody waits any more.
  void cancel() const;

 private:
  std::shared_ptr<ServedModel> model_;
  runtime::Scheduler::Ticket ticket_ = 0;
  std::shared_ptr<RunJob> job_;
};

/// ServedModel::submit() for what callers give as of ServedModel::signature(): texts get a run each, and the answers
/// that the model's pipeline makes of them; strings for the input that is given pictures are pictures. Errors as there,
/// of Pipeline::prepare() and of runtime::read_pictures().
Pending submit(const std::shared_ptr<ServedModel>& model, ServedModel::Call call, runtime::Completion done,
               runtime::Here here, const pipeline::PrepareOptions& options = {});

}  // namespace gpux::server
