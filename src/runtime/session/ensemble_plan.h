#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpux/model_info.h"

/// How values go through a chain of models. Without a session.
namespace gpux::runtime {

/// A step of an ensemble: a model with a name.
struct EnsembleStep {
  std::string name;     ///< without a dot
  Signature signature;  ///< of its model
  /// Where inputs of the model come from: an input of the ensemble, or "STEP.OUTPUT" of an earlier step. One that is
  /// not listed: the output of that name of the latest earlier step that has it, else the ensemble's input of that
  /// name.
  std::vector<std::pair<std::string, std::string>> inputs;
};

/// Which value an input of a step gets.
struct PlannedInput {
  std::string name;                 ///< of the model's input
  std::optional<std::size_t> step;  ///< whose output it is; empty: an input of the ensemble
  std::size_t index = 0;            ///< of the output, or of the ensemble's input
};

struct EnsemblePlan {
  std::vector<std::vector<PlannedInput>> inputs;             ///< of each step, in their order
  std::vector<std::pair<std::size_t, std::size_t>> outputs;  ///< of the ensemble: step and index of its output
  Signature signature;                                       ///< of the ensemble

  /// The outputs of each step that these outputs of the ensemble need; empty: the step need not run.
  [[nodiscard]] std::vector<std::vector<std::size_t>> needed(std::span<const std::size_t> wanted) const;
};

/// `outputs`: names of the ensemble's outputs with "STEP.OUTPUT"; empty: all of the last step. Error invalid_config
/// that lists all that is wrong: unknown steps, inputs and outputs, later steps, names that occur twice, types and
/// shapes that do not fit, steps that nothing uses. Pure.
EnsemblePlan plan_ensemble(std::span<const EnsembleStep> steps,
                           const std::vector<std::pair<std::string, std::string>>& outputs);

}  // namespace gpux::runtime
