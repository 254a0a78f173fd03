#pragma once

#include <functional>
#include <memory>

#include "gpux/tensor.h"

namespace gpux {

class Runtime;

namespace runtime {

/// What a worker process has beside its model, and remembers from call to call: isolation::RemoteSession::call().
class WorkerService {
 public:
  WorkerService() = default;
  virtual ~WorkerService() = default;
  WorkerService(const WorkerService&) = delete;
  WorkerService& operator=(const WorkerService&) = delete;

  /// One call at a time. Its errors are those of the caller, in the other process.
  [[nodiscard]] virtual NamedValues call(const NamedValues& inputs) = 0;

  /// The call that is under way ends with Error interrupted. From any thread.
  virtual void stop() = 0;
};

/// Makes the service of a model that was loaded, which outlives it.
using MakeWorkerService = std::function<std::unique_ptr<WorkerService>(const Runtime& runtime)>;

}  // namespace runtime
}  // namespace gpux
