#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "gpux/error.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/verdict.h"
#include "ort/session.h"
#include "provider/options.h"
#include "provider/select.h"

namespace gpux::runtime {

/// One provider that goes into the session.
struct Candidate {
  std::string id;
  ort::ProviderAppend append;
  std::filesystem::path library;  ///< that brings it; empty where ONNX Runtime's own does
};

/// All that is decided before a session is made.
struct Plan {
  provider::Request request;
  std::vector<Candidate> candidates;  ///< without the CPU, which every session has
  Verdict verdict;
  std::string precision;  ///< that is asked for; empty: the model's own
  std::map<std::string, provider::ResolvedOptions>
      options;                                   ///< options of each provider that goes into the session, by id
  std::vector<std::string> with_derived_shapes;  ///< ids of providers that get shapes nobody named
  std::string own_provider;                      ///< of gpux, that auto took: it must run the whole model; empty: none
};

/// Takes from the plan the shapes that nobody named, after a session with them failed for the reason. False: there are
/// none. Pure.
bool forget_derived_shapes(Plan& plan, const std::string& reason);

/// The options meant for one provider, by whatever name it was called; null where there are none.
const ProviderOptions* options_of(const LoadOptions& options, const std::string& id);

/// Surveys the machine, selects, and opens the core. Error usage, and those of the requested providers.
Plan make_plan(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options,
               const Machine& machine);

/// The library of a provider that a load may open.
struct ProviderFile {
  std::string id;
  std::string version;  ///< the library with its size and time, ONNX Runtime, and the driver
};

/// The provider libraries of a load with these options, before any is opened; without gpux's own. Empty for "fastest".
/// Error usage.
std::vector<ProviderFile> provider_files(const LoadOptions& options, const Machine& machine);

/// The candidate that the error of a failed session names. Empty where it names none, or several. `model`: the file
/// that was loaded, whose name in the error counts for nothing. Pure.
std::optional<std::size_t> named_in(const Error& error, std::span<const Candidate> candidates,
                                    const std::filesystem::path& model);

/// The candidate, of `count` (1 or more), without which a session can be made; the first where leaving out one does
/// not help. The last is tried first, as those before it are preferred.
std::size_t culprit_by_trial(std::size_t count, const std::function<bool(std::size_t left_out)>& loads_without);

}  // namespace gpux::runtime
