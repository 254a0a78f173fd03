#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gpux/model.h"
#include "gpux/options.h"
#include "project/models_file.h"
#include "project/project_file.h"
#include "settings/setting.h"

namespace gpux {

/// How a command uses worker processes.
enum class WorkerUse : std::uint8_t {
  none,       ///< it has none
  once,       ///< one that ended is an error
  restarted,  ///< one that ended is replaced
};

/// How a model is to be loaded, as one source says it, or several after merge().
struct LoadRequest {
  MaybeSetting<std::string> provider;
  MaybeSetting<Strictness> strict;
  MaybeSetting<unsigned> device;
  MaybeSetting<std::uint64_t> memory_bytes;
  MaybeSetting<std::string> precision;  ///< one of read_precision()'s
  MaybeSetting<double> min_cosine;
  MaybeSetting<std::filesystem::path> cache_directory;
  MaybeSetting<unsigned> intra_threads, inter_threads;
  MaybeSetting<Optimization> optimization;
  MaybeSetting<std::filesystem::path> profile;
  MaybeSetting<std::string> shapes;                 ///< that the requested provider compiles for: an option of it
  MaybeSetting<std::chrono::milliseconds> timeout;  ///< maximum time of a run
  MaybeSetting<BatchAxis> batch_axis;
  MaybeSetting<Isolation> isolation;  ///< isolation, for commands with worker processes
  MaybeSetting<Sandbox> sandbox;      ///< likewise
  MaybeSetting<bool> preflight;       ///< likewise
  MaybeSetting<std::chrono::milliseconds> preflight_timeout;
  std::vector<ProviderLibrary> provider_libraries;
  /// With an empty provider: of the one that is requested. The first value of an option counts.
  std::vector<ProviderOptions> provider_options;
  std::vector<std::pair<std::string, std::string>> session_config;
  std::vector<Setting<std::filesystem::path>> custom_operator_libraries;
  WorkerUse worker_use = WorkerUse::none;
};

/// Each setting of the first that has it; lists one after the other. `worker_use` is that of the first. Pure.
LoadRequest merge(LoadRequest first, const LoadRequest& second);

/// The settings of a caller of the library. Errors usage, by the names of the members.
LoadRequest request_of(const ModelOptions& options);

/// The settings of `runtime` in a gpux.yml, but for `runtime.isolation`, which the package of a stranger may only make
/// stricter.
LoadRequest request_of(const ProjectFile& project);

/// The settings of an entry of a list of models.
LoadRequest request_of(const ListedModel& listed);

/// The settings of the GPUX_* variables. Errors usage.
LoadRequest request_of_variables();

/// All GPUX_* variables that gpux reads.
std::vector<std::string> variable_names();

/// Problem of the value of this GPUX_* variable; empty if it is valid or not set.
std::string variable_problem(const std::string& name);

/// The variable's text; empty where it is not set.
MaybeSetting<std::string> variable_setting(const char* name);

}  // namespace gpux
