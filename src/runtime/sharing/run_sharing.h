#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/run_sharing.h"
#include "onnx/input_flow.h"
#include "runtime/sharing/kept_trials.h"
#include "runtime/sharing/sharing_trial.h"

/// Whether requests may share runs: the decision, without a session.
namespace gpux::runtime {

/// Why requests cannot be joined along the first axis at all: an input or output that is no tensor, or whose first
/// dimension is fixed or unknown. Empty where they can. Pure.
std::string first_axis_obstacle(const Signature& signature);

/// Why the names of dimensions contradict a batch along the first axis: first dimensions of different telling names, or
/// one whose name another dimension has, too. Empty where they do not. Pure.
std::string dimension_name_obstacle(const Signature& signature);

/// Operators whose answer for a row depends on the other rows, or differs from run to run: dynamic quantization, random
/// numbers. Empty where there is none of them. `operators` as in ModelInfo. Pure.
std::string operator_obstacle(const std::map<std::string, std::uint64_t>& operators);

/// Why equal requests may get different answers: an operator that draws random numbers, as Dropout may, or one that is
/// neither ONNX's nor ONNX Runtime's, of which nothing is known. Empty where they do not. `operators` as in ModelInfo.
/// Pure.
std::string repetition_obstacle(const std::map<std::string, std::uint64_t>& operators);

/// The operators of the file that runs, `weights`, and of the steps before and behind it, as in ModelInfo. Errors of
/// ModelInspector.
std::map<std::string, std::uint64_t> operators_of(const ModelInfo& info, const std::filesystem::path& weights,
                                                  const LoadOptions& options);

/// Why made-up requests prove nothing, as what a request holds decides over the sizes or the number of computations of
/// a whole run: a content_operator of onnx::InputFlow; or a foreign_operator, which may be one, of a model that takes
/// texts or gives an output of a free size that no input names. Empty where they do. Pure.
std::string content_obstacle(const Signature& signature, const onnx::InputFlow& flow);

/// All that is known without running the model.
struct SharingFacts {
  std::string first_axis = {}, dimension_names = {}, operators = {}, contents = {};  ///< obstacles; empty: none
  std::optional<BatchAxis> setting = {};
  std::string setting_from = {};  ///< for messages
};

/// The decision where the facts suffice: a setting takes precedence over names, operators and contents. Empty where a
/// trial has to decide. Error invalid_config (usage for a flag) where the setting is zero and there is no free first
/// axis. Pure.
std::optional<RunSharing> decide_without_trial(const SharingFacts& facts);

/// The decision after a trial. Pure.
RunSharing decide_by_trial(const SharingTrial& trial);

/// The decision for a list of requests that is too short for a trial: no sharing.
RunSharing too_few_for_a_trial(std::size_t requests);

/// Whether runs can be shared, as far as known before the model is loaded: a decision if no trial is needed, else the
/// results of earlier trials.
struct KnownSharing {
  std::optional<RunSharing> decision;  ///< empty: a trial decides
  std::vector<KeptTrial> trials;       ///< without a decision
};

/// `weights` is the file that runs; `info` is the model's, with the signature that callers see. Reads the model as a
/// whole where there may be trials of it. Errors of decide_without_trial() and of ModelInspector.
KnownSharing known_sharing(const ModelInfo& info, const std::filesystem::path& weights, const LoadOptions& options);

/// The files whose content decides over the answers, and what is known of them.
struct SharingSubject {
  TrialSubject files;
  SharingFacts facts;
};

/// Collects files and facts for the decision about sharing runs. Errors of ModelInspector.
SharingSubject sharing_subject(const ModelInfo& info, const std::filesystem::path& weights, const LoadOptions& options);

/// A list of fewer requests than this is run one by one without a trial, which would take longer.
inline constexpr std::size_t min_requests_for_a_trial = 64;

}  // namespace gpux::runtime
