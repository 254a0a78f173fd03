#pragma once

#include <memory>
#include <mutex>
#include <string_view>

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

  /// ort::Session::run_in_place() of a model without steps before or behind it. Returns the output of that name.
  Value run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::string_view output);

 private:
  /// Runs with a handle that stop() finds.
  template <typename Run>
  auto stoppable(const Run& run);

  const Runtime& runtime_;
  std::mutex mutex_;
  ort::RunHandle* running_ = nullptr;
};

}  // namespace gpux::runtime
