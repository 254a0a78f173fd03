#include "runtime/sharing/trial_memory.h"

#include <string>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/processors.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "runtime/runtime_state.h"
#include "runtime/sharing/kept_trials.h"
#include "runtime/sharing/run_sharing.h"

namespace gpux::runtime {

bool TrialMemory::holds(std::string_view question, const std::function<bool()>& attempt) {
  const Runtime::State& state = *runtime_.state_;
  if (!file_) {
    file_ = kept_trials_file(sharing_subject(state.info, state.loaded.weights_file, state.options).files);
  }
  const std::string computed_by =
      sha256_of(fmt::format("{}threads {}\nquestion {}\n", state.loaded.computed_by,
                            state.options.intra_threads.value_or(usable_cores(Machine::this_one())), question));
  if (const auto kept = find_kept_trial(*file_, computed_by)) {
    return kept->trial.outcome == SharingTrial::Outcome::equal;
  }
  const bool holds = attempt();
  keep_trial(*file_, {.computed_by = computed_by,
                      .provider = join(state.loaded.verdict.active, ","),
                      .runtime_version = state.loaded.verdict.runtime_version,
                      .trial = {.outcome = holds ? SharingTrial::Outcome::equal : SharingTrial::Outcome::different}});
  return holds;
}

}  // namespace gpux::runtime
