#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "gpux/options.h"
#include "isolation/decide_isolation.h"
#include "model/locate.h"
#include "settings/load_request.h"

namespace gpux {

/// How a model is loaded: the result of merging all sources of settings.
struct LoadSettings {
  LoadOptions options;
  LoadRequest request;            ///< of the caller, the variables, the package and gpux.yml together
  std::uint64_t batch_limit = 0;  ///< rows per run; 0: the default
  /// The request and facts from which options.isolation and options.sandbox were decided.
  isolation::IsolationRequest isolation_request;
  isolation::IsolationFacts isolation_facts;

  /// Maximum time of a run; empty: unlimited.
  [[nodiscard]] std::optional<std::chrono::milliseconds> timeout() const;
};

/// Decides options.isolation again, as it cannot be a worker process by default, because of `obstacle`.
void note_isolation_obstacle(LoadSettings& settings, const std::string& obstacle);

/// The caller, the GPUX_* variables, the provider a package was built for, gpux.yml, a default: the first that says
/// something counts. Errors usage, invalid_config (gpux.yml) and not_found, each naming the source.
LoadSettings resolve_load(const LoadRequest& request, const LocatedModel& model);

/// resolve_load() for a load that only shows that a model can be stored. One of a stranger is loaded in a worker
/// process with a sandbox, where this program can start one, and on whatever runs it: no profile is written, and
/// neither "fastest" nor a strict choice of the user counts, which are for its runs.
LoadSettings resolve_check(const LoadRequest& request, const LocatedModel& model);

/// Whether the request's first provider keeps what it compiles, so that it can be compiled ahead. Error usage where it
/// names none.
bool compiles_ahead(const std::string& request);

/// Error invalid_config where the file gives a provider an option that names a place of this machine, which a package
/// may not say. resolve_load() does it for the gpux.yml that came with a package.
void require_portable_options(const ProjectFile& project);

}  // namespace gpux
