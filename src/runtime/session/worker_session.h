#pragma once

#include <filesystem>
#include <memory>

#include "runtime/loading/load.h"
#include "runtime/session/model_session.h"

namespace gpux::runtime {

/// A model in a worker process, which passes values on through the host.
class WorkerSession : public ModelSession {
 public:
  explicit WorkerSession(std::unique_ptr<isolation::RemoteSession> session);

  [[nodiscard]] RunPlaces places() const noexcept override { return RunPlaces::worker; }

  [[nodiscard]] const std::vector<std::string>& output_names() const noexcept override;
  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle* handle,
                                WorkerAbsence absence) const override;
  [[nodiscard]] Value run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::size_t output,
                                   bool all_logits, StopHandle& handle) const override;
  [[nodiscard]] bool uses_pinned_memory() const noexcept override;
  [[nodiscard]] std::vector<Runtime::PlacedNode> placement(const Verdict& verdict) const override;
  [[nodiscard]] std::optional<WorkerStatus> worker() const override;

  [[nodiscard]] const isolation::RemoteSession* remote() const noexcept override { return session_.get(); }

  void limit_computing(std::size_t runs) const override;

 private:
  std::unique_ptr<isolation::RemoteSession> session_;
};

/// What the worker has reported of its load, as if it were a load in this process. The verdict has a note that says why
/// the model is in a worker.
Loaded loaded_in_worker(const std::filesystem::path& model, const isolation::LoadReport& report,
                        const LoadOptions& options);

}  // namespace gpux::runtime
