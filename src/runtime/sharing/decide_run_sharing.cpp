#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/spelling.h"
#include "gpux/runtime.h"
#include "runtime/runtime_state.h"
#include "runtime/sharing/kept_trials.h"
#include "runtime/sharing/run_sharing.h"

namespace gpux {
namespace runtime {
namespace {

// Rows that no step mixes stay apart in all of them.
RunSharing sharing_of_steps(const std::vector<std::pair<std::string, const Runtime*>>& steps, std::size_t requests,
                            const LoadOptions& options) {
  if (options.batch_axis) {
    return {*options.batch_axis == BatchAxis::zero, RunSharing::Source::setting,
            fmt::format("{} is {}", options.batch_axis_from, *options.batch_axis == BatchAxis::zero ? "0" : "none")};
  }
  RunSharing last;
  for (const auto& [name, step] : steps) {
    last = step->run_sharing({.requests = requests, .sizes = {}});
    last.reason = fmt::format("step '{}': {}", name, last.reason);
    if (!last.shared) return last;
  }
  last.reason = "each step allows it; " + last.reason;
  return last;
}

}  // namespace
}  // namespace runtime

RunSharing Runtime::run_sharing(const SharingTrialOptions& options) const {
  State& state = *state_;
  const std::lock_guard lock(state.sharing_mutex);
  if (state.sharing) return *state.sharing;
  if (const auto steps = state.session->steps(); !steps.empty()) {
    return runtime::sharing_of_steps(steps, options.requests, state.options);
  }
  const runtime::SharingSubject subject =
      runtime::sharing_subject(state.info, state.loaded.weights_file, state.options);
  state.sharing = runtime::decide_without_trial(subject.facts);
  if (state.sharing) return *state.sharing;
  const bool is_worth_a_trial = options.requests >= runtime::min_requests_for_a_trial;
  if (!is_worth_a_trial && !runtime::may_have_kept_trials(subject.files)) {
    return runtime::too_few_for_a_trial(options.requests);
  }
  std::string conditions = state.loaded.computed_by;
  for (const auto& sizes : options.sizes) {
    conditions += "sizes";
    for (const auto& [name, size] : sizes) conditions += fmt::format(" {}={}", name, size);
    conditions += '\n';
  }
  const std::string computed_by = sha256_of(conditions);
  const std::filesystem::path file = runtime::kept_trials_file(subject.files);
  if (const auto kept = runtime::find_kept_trial(file, computed_by)) {
    state.sharing = runtime::decide_by_trial(kept->trial);
    return *state.sharing;
  }
  if (!is_worth_a_trial) return runtime::too_few_for_a_trial(options.requests);
  const auto run = [this](const NamedValues& inputs, std::chrono::nanoseconds limit) {
    return infer(inputs, {.timeout = std::chrono::ceil<std::chrono::milliseconds>(limit), .outputs = {}});
  };
  const runtime::SharingTrial trial = runtime::try_sharing(state.info.signature, options.sizes, run);
  if (runtime::is_worth_keeping(trial)) {
    runtime::keep_trial(file, {.computed_by = computed_by,
                               .provider = join(state.loaded.verdict.active, ","),
                               .runtime_version = state.loaded.verdict.runtime_version,
                               .trial = trial});
  }
  state.sharing = runtime::decide_by_trial(trial);
  return *state.sharing;
}

std::string Runtime::repetition_obstacle() const {
  const auto steps = state_->session->steps();
  for (const auto& [name, step] : steps) {
    if (std::string obstacle = step->repetition_obstacle(); !obstacle.empty()) return obstacle;
  }
  if (!steps.empty()) return {};
  return runtime::repetition_obstacle(
      runtime::operators_of(state_->info, state_->loaded.weights_file, state_->options));
}

}  // namespace gpux
