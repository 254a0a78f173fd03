#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/provider_manager.h"

namespace gpux::runtime {

/// One way to run the model that may be the quickest.
struct FastestCandidate {
  std::string name;  ///< "encoder", or "encoder in int8"
  ProviderReport provider;
  std::string precision;                      ///< that is set for the provider; empty: none
  const PrecisionVariant* variant = nullptr;  ///< what it runs instead of the model
  bool is_compared = false;                   ///< its outputs must be within the tolerance of the model's on the CPU
  std::string refusal;                        ///< why it is not even timed; may be empty
  std::string shapes = {};                    ///< derived, that it compiles for; empty: none
};

/// Precisions that `any` may choose from, beside the provider's default.
struct PrecisionChoice {
  std::vector<std::string> precisions;  ///< the provider's own precisions, as in ResolvedOptions::precisions
  bool is_float32 = false;              ///< the model
  bool can_compare = true;              ///< there is a program that does
};

/// The candidates for this provider: one in the precision that `options` request, by default the model's own; with
/// "any" also one in each other precision that the provider can compute in, or that has a variant. Points into the
/// options. Pure.
std::vector<FastestCandidate> candidates_on(const ProviderReport& provider, const PrecisionChoice& choice,
                                            const LoadOptions& options);

/// How long a run of the model takes one way, or why that is not known or does not count.
struct Timing {
  std::string candidate;
  std::optional<double> milliseconds;
  std::string failure;  ///< one sentence; empty where measured
  std::optional<double> mean_cosine =
      {};  ///< mean cosine of its answers and the model's on the CPU, if they were compared
};

/// The timing, without its time if its outputs are not within the tolerance. Pure.
Timing held_to(double min_cosine, Timing timing);

/// The chosen candidate, and the timings of all.
struct FastestChoice {
  std::string candidate;  ///< empty where nothing could be measured
  std::vector<Timing> timings;
  bool remembered = false;  ///< read from an earlier load, not measured now
};

/// The quickest of those that were measured, the first of equals; empty where none was. Pure.
std::string fastest_of(std::span<const Timing> timings);

/// Under what a choice is kept: the model's content, the machine, the options that matter for speed, and each
/// candidate's libraries with their size and date, its precision and its variant's content, as 64 hexadecimal digits.
/// The content of a model is that of its external data, too: reads all of it once per process.
std::string fastest_key(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options,
                        std::span<const FastestCandidate> candidates, const Machine& machine);

using Measure = std::function<Timing(const FastestCandidate& candidate)>;

/// Takes the choice from `file` where it holds one for these candidates, else measures each in turn and keeps the
/// result there. A choice that cannot be kept is made all the same.
FastestChoice choose_fastest(std::span<const FastestCandidate> candidates, const std::filesystem::path& file,
                             const Measure& measure);

/// The gpux program: this one, or bin/gpux of the folder this library is installed in. Empty where there is none.
std::filesystem::path find_program();

/// Times the candidate in a child process of `program`, since a process has one ONNX Runtime only, and compares it
/// where that is asked for.
Timing time_in_child(const std::filesystem::path& program, const std::filesystem::path& model,
                     const LoadOptions& options, const FastestCandidate& candidate);

/// Times the candidate in this process, whose ONNX Runtime is open. It is not compared.
Timing time_here(const std::filesystem::path& model, const LoadOptions& options, const FastestCandidate& candidate);

}  // namespace gpux::runtime
