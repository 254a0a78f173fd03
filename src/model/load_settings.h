#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpux/options.h"
#include "model/locate.h"
#include "runtime/isolation/decide_isolation.h"

namespace gpux {

/// Worker processes of a command.
enum class WorkerUse : std::uint8_t {
  none,       ///< models run in its own process
  once,       ///< the command fails with its worker
  restarted,  ///< workers that end are replaced
};

/// The flags that say how a model is loaded, as typed. One that was not given is empty.
struct LoadFlags {
  std::string provider, strict, device, memory, precision, min_cosine, cache_directory;
  std::vector<std::string> provider_libraries, provider_options, session_options, custom_operators;
  std::string intra_threads, inter_threads, optimization, profile;
  std::string shapes;                        ///< that the requested provider compiles for: an option of it
  std::string sandbox;                       ///< "off", "on", "strict"
  std::string provider_from = "--provider";  ///< who said `provider`, for the verdict
  /// "thread", "process"; empty: gpux.yml or decide_isolation() decides.
  std::string isolation;
  std::string isolation_from = "--isolation";  ///< its source
  std::string preflight;                       ///< "on", "off"; empty: on, for commands with worker processes
  std::string preflight_timeout;               ///< "10m"
  WorkerUse worker_use = WorkerUse::none;
};

/// What they come to together with GPUX_* variables, gpux.yml and the package.
struct LoadSettings {
  LoadOptions options;
  std::string precision_from;  ///< the flag or variable that asked for options.precision; empty: none did
  std::optional<std::chrono::milliseconds> timeout;
  std::uint64_t batch_limit = 0;           ///< rows per run; 0: the default
  std::optional<Sandbox> sandbox_request;  ///< --sandbox
  /// What decided options.isolation and options.sandbox.
  runtime::isolation::IsolationRequest isolation_request;
  runtime::isolation::IsolationFacts isolation_facts;
};

/// Decides options.isolation again, as it cannot be a worker process by default, because of `obstacle`.
void note_isolation_obstacle(LoadSettings& settings, const std::string& obstacle);

/// Takes the value of --batch-axis, where one was given.
void set_batch_axis(const std::string& flag, LoadOptions& options);

/// Flag, GPUX_* variable, the provider a package was built for, gpux.yml, default: the first that speaks counts.
/// Errors usage (flags and variables), invalid_config (gpux.yml), each naming the setting.
LoadSettings resolve_load(const LoadFlags& flags, const std::string& timeout, const LocatedModel& model);

/// resolve_load() for a load that only shows that a model can be stored. One of a stranger is loaded in a worker
/// process with a sandbox, where this program can start one, and on whatever runs it: no profile is written, and
/// neither "fastest" nor a strict choice of the user counts, which are for its runs.
LoadSettings resolve_check(const LoadFlags& flags, const LocatedModel& model);

/// Whether the request's first provider keeps what it compiles, so that it can be compiled ahead. Error usage where it
/// names none.
bool compiles_ahead(const std::string& request);

/// The value of a --min-cosine. Error usage.
double min_cosine_from(const std::string& text);

/// Error invalid_config where the file gives a provider an option that names a place of this machine, which a package
/// may not say. resolve_load() does it for the gpux.yml that came with a package.
void require_portable_options(const ProjectFile& project);

/// The values of --provider-library NAME=PATH. Error usage.
std::vector<ProviderLibrary> read_provider_libraries(const std::vector<std::string>& texts);

/// All GPUX_* variables that gpux reads.
std::vector<std::string> variable_names();

/// What is wrong with the value of one of them; empty where it is not set or will do.
std::string variable_problem(const std::string& name);

}  // namespace gpux
