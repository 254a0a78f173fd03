#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpux/runtime.h"
#include "runtime/session/ensemble_plan.h"
#include "runtime/session/model_session.h"

namespace gpux::runtime {

/// Several models that are run one after the other, each in its own session, wherever that is. Values go from one to
/// the next by reference, on the host.
class EnsembleSession : public ModelSession {
 public:
  /// `names` and `steps` are in the order of the plan.
  EnsembleSession(EnsemblePlan plan, std::vector<std::string> names, std::vector<Runtime> steps);

  /// A runtime of such a session. `info`: of the ensemble, with the plan's signature. `batch_axis`: as of LoadOptions.
  static Runtime make(EnsemblePlan plan, std::vector<std::string> names, std::vector<Runtime> steps, ModelInfo info,
                      const LoadOptions& options);

  [[nodiscard]] RunPlaces places() const noexcept override { return RunPlaces::both; }

  [[nodiscard]] const std::vector<std::string>& output_names() const noexcept override { return output_names_; }

  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle* handle,
                                WorkerAbsence absence) const override;
  [[nodiscard]] Value run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::size_t output,
                                   bool all_logits, StopHandle& handle) const override;

  [[nodiscard]] bool uses_pinned_memory() const noexcept override { return false; }

  [[nodiscard]] std::vector<Runtime::PlacedNode> placement(const Verdict& verdict) const override;
  [[nodiscard]] std::optional<std::string> lost_device() const override;
  /// Of the first that is not ready, else of the first.
  [[nodiscard]] std::optional<WorkerStatus> worker() const override;

  [[nodiscard]] std::vector<std::pair<std::string, const Runtime*>> steps() const override;

 private:
  EnsemblePlan plan_;
  std::vector<std::string> names_, output_names_;
  std::vector<Runtime> steps_;
};

/// The verdict of an ensemble: of each provider its nodes in all steps; each step's own is a note
/// where they are not alike. `steps`: at least one. Pure.
Verdict verdict_of_steps(const std::vector<std::pair<std::string, const Verdict*>>& steps);

}  // namespace gpux::runtime
