#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "gpux/error.h"
#include "runtime/scheduling/scheduler.h"
#include "server/grpc/infer_message.h"
#include "server/jobs/infer_submission.h"
#include "server/models/model_repository.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// One inference, from its message to that of its answer. All members from any thread.
class InferRun : public std::enable_shared_from_this<InferRun> {
 public:
  struct Failure {
    Error error;
    std::optional<LimitRefusal> refusal = {};  ///< of a limit of the model
  };

  /// Called once, on any thread, also before start() has returned.
  using Done = std::function<void(const std::optional<Failure>& failure, const InferMessage& message)>;

  InferRun(std::shared_ptr<const inference::ModelInferRequest> request, RequestWork work,
           std::chrono::steady_clock::time_point arrived, std::shared_ptr<const SharedRegions> regions, Done done);

  void start(ModelRepository& repository);

  /// Nobody waits any more; `done` gets interrupted where it had nothing yet.
  void cancel();

 private:
  void submit_to(const std::shared_ptr<ServedModel>& model);

  void fail(const Error& error) { end(Failure{error}, {}); }

  void end(const std::optional<Failure>& failure, const InferMessage& message);

  std::shared_ptr<const inference::ModelInferRequest> request_;
  RequestWork work_;
  std::chrono::steady_clock::time_point arrived_;
  std::shared_ptr<const SharedRegions> regions_;  // null: shared memory is not served

  std::mutex mutex_;
  Done done_;  // taken by the one that ends
  bool cancelled_ = false;
  Pending pending_;
};

}  // namespace gpux::server
