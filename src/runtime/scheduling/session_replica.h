#pragma once

#include <memory>
#include <mutex>

#include "gpux/runtime.h"
#include "runtime/scheduling/scheduler.h"

namespace gpux::ort {
class RunHandle;
}

namespace gpux::runtime {

/// Runs in the session of a Runtime, which several replicas may share and which must outlive them.
class SessionReplica : public Replica {
 public:
  explicit SessionReplica(const Runtime& runtime);
  ~SessionReplica() override;

  NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs) override;
  void stop() override;

 private:
  const Runtime& runtime_;
  std::mutex mutex_;
  ort::RunHandle* running_ = nullptr;
};

}  // namespace gpux::runtime
