#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "gpux/options.h"
#include "isolation/load_facts.h"
#include "runtime/loading/load_plan.h"

/// The first load of a provider's library, in a child process: one that crashes or hangs costs its provider, not this
/// process.
namespace gpux::runtime {

/// What became of a load in a process that may crash.
struct TrialEnd {
  std::string crash;        ///< "was ended by signal 11 (SIGSEGV)", "did not end within 600 s"; empty: neither
  bool has_loaded = false;  ///< else it has crashed, hung, or reported an error
  bool has_hung = false;
};

using TrialLoad = std::function<TrialEnd(const LoadOptions& options)>;

/// Which of these providers, one at least, crash or hang when the model is loaded: first all together, then each alone.
/// Error internal if it crashes without them, too.
CrashedProviders find_crashing(std::span<const ProviderFile> files, const LoadOptions& options, const TrialLoad& load);

/// Loads the model in a worker process, which is ended after options.preflight_timeout. Errors usage, internal,
/// resource_exhausted: none can be started.
TrialEnd load_in_child(const std::filesystem::path& model, const std::string& name, const LoadOptions& options);

/// LoadFacts::crashed_providers for a load whose `preflight` is set. Libraries that passed are listed in the home
/// folder, by file, size, time, ONNX Runtime and driver; a load with those alone starts no process.
/// Errors usage where this program is not gpux, and for requests that cannot be; internal as of find_crashing().
CrashedProviders preflight(const std::filesystem::path& model, const std::string& name, const LoadOptions& options);

}  // namespace gpux::runtime
