#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/provider_manager.h"

namespace gpux::runtime {

/// How long a run of the model takes on one provider, or why that is not known.
struct Timing {
  std::string provider;
  std::optional<double> milliseconds;
  std::string failure;  ///< one sentence; empty where measured
};

/// What the timings say.
struct FastestChoice {
  std::string provider;  ///< empty where nothing could be measured
  std::vector<Timing> timings;
  bool remembered = false;  ///< read from an earlier load, not measured now
};

/// The quickest of those that were measured, the first of equals; empty where none was. Pure.
std::string fastest_of(std::span<const Timing> timings);

/// Under what a choice is kept: the model's content, this machine, the options that matter for speed, and each
/// candidate's libraries with their size and date, as 64 hexadecimal digits. Reads the whole model file.
std::string fastest_key(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options,
                        std::span<const ProviderReport> candidates);

using Measure = std::function<Timing(const ProviderReport& candidate)>;

/// Takes the choice from `file` where it holds one for these candidates, else measures each in turn and keeps the
/// result there. A choice that cannot be kept is made all the same.
FastestChoice choose_fastest(std::span<const ProviderReport> candidates, const std::filesystem::path& file,
                             const Measure& measure);

/// The gpux program: this one, or bin/gpux of the folder this library is installed in. Empty where there is none.
std::filesystem::path find_program();

/// Times the candidate in a child process of `program`, since a process has one ONNX Runtime only.
Timing time_in_child(const std::filesystem::path& program, const std::filesystem::path& model,
                     const LoadOptions& options, const ProviderReport& candidate);

/// Times the candidate in this process, whose ONNX Runtime is open.
Timing time_here(const std::filesystem::path& model, const LoadOptions& options, const ProviderReport& candidate);

}  // namespace gpux::runtime
