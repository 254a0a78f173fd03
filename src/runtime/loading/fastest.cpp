#include "runtime/loading/fastest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/home.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/process.h"
#include "base/sha256.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "gpux/runtime.h"
#include "onnx/model_files.h"
#include "provider/engine_cache.h"
#include "provider/library_version.h"
#include "runtime/loading/precision_variant.h"
#include "store/variant.h"

namespace gpux::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double measured_seconds = 1;
constexpr std::uint64_t warmup_runs = 2;
// Engines are built at the first load; that may take minutes, but not for ever.
constexpr std::chrono::minutes child_limit{5};

std::optional<FastestChoice> read_choice(std::span<const FastestCandidate> candidates, const fs::path& file) {
  FastestChoice choice;
  try {
    const json kept = json::parse(read_file(file, 1 << 20));
    choice.candidate = kept.at("candidate").get<std::string>();
    for (const json& entry : kept.at("timings")) {
      Timing timing{entry.at("candidate").get<std::string>(), std::nullopt, entry.value("failure", "")};
      if (entry.contains("milliseconds")) timing.milliseconds = entry.at("milliseconds").get<double>();
      if (entry.contains("mean_cosine")) timing.mean_cosine = entry.at("mean_cosine").get<double>();
      choice.timings.push_back(std::move(timing));
    }
  } catch (const Error&) {
    return std::nullopt;  // there is none
  } catch (const json::exception& exception) {
    log::debug("'{}' is not what was kept there: {}", file.string(), exception.what());
    return std::nullopt;
  }
  const bool fits = std::ranges::equal(candidates, choice.timings, {}, &FastestCandidate::name, &Timing::candidate) &&
                    choice.candidate == fastest_of(choice.timings);
  if (!fits || choice.candidate.empty()) return std::nullopt;
  choice.remembered = true;
  return choice;
}

void keep_choice(const FastestChoice& choice, const fs::path& file) {
  json kept{{"candidate", choice.candidate}, {"timings", json::array()}};
  for (const Timing& timing : choice.timings) {
    json entry{{"candidate", timing.candidate}};
    if (timing.milliseconds) entry["milliseconds"] = *timing.milliseconds;
    if (timing.mean_cosine) entry["mean_cosine"] = *timing.mean_cosine;
    if (!timing.failure.empty()) entry["failure"] = timing.failure;
    kept["timings"].push_back(std::move(entry));
  }
  try {
    write_file_atomically(file, kept.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  } catch (const Error& error) {
    log::info("the fastest provider will be measured again: {}", error.message());
  }
}

// The flags that make a child load the model as this process would.
std::vector<std::string> flags_for(const LoadOptions& options) {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, std::string value) {
    flags.emplace_back(flag);
    flags.push_back(std::move(value));
  };
  for (const ProviderLibrary& library : options.provider_libraries) {
    add("--provider-library", library.name + "=" + fs::absolute(library.path).string());
  }
  for (const ProviderOptions& entry : options.provider_options) {
    for (const auto& [name, value] : entry.values) {
      add("--provider-option", fmt::format("{}.{}={}", entry.provider, name, value));
    }
  }
  if (options.device) add("--device", std::to_string(*options.device));
  if (options.memory_bytes) add("--memory", std::to_string(*options.memory_bytes));
  if (!options.precision.empty()) add("--precision", options.precision);
  if (const fs::path& folder = options.cache_directory; !folder.empty()) {
    add("--cache-dir", folder == provider::own_engine_folder ? folder.string() : fs::absolute(folder).string());
  }
  if (options.intra_threads) add("--threads", std::to_string(*options.intra_threads));
  if (options.inter_threads) add("--inter-threads", std::to_string(*options.inter_threads));
  add("--optimization-level", std::string(to_string(options.optimization)));
  for (const auto& [key, value] : options.session_config) add("--session-option", key + "=" + value);
  for (const fs::path& library : options.custom_operator_libraries) add("--custom-ops", fs::absolute(library).string());
  return flags;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

// Reads what `gpux bench --json` prints.
Timing read_benchmark(const FastestCandidate& candidate, const ProcessResult& result) {
  const auto failed = [&](std::string why) { return Timing{candidate.name, std::nullopt, std::move(why)}; };
  if (result.timed_out) return failed(fmt::format("no time within {} min", child_limit.count()));
  if (result.exit_code != 0) {
    std::string words = last_line(result.standard_error);
    return failed(words.empty() ? fmt::format("its process ended with {}", result.exit_code) : std::move(words));
  }
  try {
    const json report = json::parse(result.standard_output);
    const json& verdict = report.at("verdict");
    const auto active = verdict.at("active").get<std::vector<std::string>>();
    if (std::ranges::find(active, candidate.provider.id) == active.end()) {
      return failed("it supports none of the model's nodes");
    }
    Timing timing{candidate.name, report.at("median_time_ms").get<double>(), {}};
    if (!candidate.is_compared) return timing;
    // Where a device has no such precision, others are compared in vain.
    if (candidate.variant == nullptr && verdict.at("precision") != candidate.precision) {
      return failed("it does not compute in that here");
    }
    timing.mean_cosine = report.at("agreement").at("mean_cosine").get<double>();
    return timing;
  } catch (const json::exception& exception) {
    return failed(std::string("its process answered something else: ") + exception.what());
  }
}

std::string short_of(double cosine, double min_cosine) {
  // Cut, not rounded: what falls short is not to look as if it did not.
  return fmt::format("mean cosine {:.6f} is below {}", std::floor(cosine * 1e6) / 1e6, min_cosine);
}

LoadOptions options_for(const FastestCandidate& candidate, const LoadOptions& options) {
  LoadOptions own = options;
  own.precision = candidate.variant == nullptr ? candidate.precision : std::string();
  return own;
}

const fs::path& file_of(const FastestCandidate& candidate, const fs::path& model) {
  return candidate.variant == nullptr ? model : candidate.variant->file;
}

// In the precision that is asked for, or the model's own.
FastestCandidate plain_candidate(const ProviderReport& provider, const PrecisionChoice& choice,
                                 const LoadOptions& options) {
  FastestCandidate candidate{.name = provider.id, .provider = provider, .precision = {}, .refusal = {}};
  const bool keeps_precision = options.precision.empty() || options.precision == any_precision;
  if (provider.id == "cpu") candidate.variant = variant_of(options, options.precision);
  if (!keeps_precision) {
    candidate.precision = options.precision;
  } else if (choice.is_float32 && std::ranges::find(choice.precisions, "fp32") != choice.precisions.end()) {
    candidate.precision = "fp32";  // some would take less by themselves
  }
  return candidate;
}

// Whether the provider has the variant for one of its candidates.
bool is_variant_for(const PrecisionVariant& variant, const ProviderReport& provider, const PrecisionChoice& choice,
                    const LoadOptions& options) {
  if (provider.id == "cpu") return variant_of(options, variant.precision) == &variant;
  // A provider's own conversion goes before the variant.
  return provider.kind != "cpu" && std::ranges::find(choice.precisions, variant.precision) == choice.precisions.end() &&
         accelerator_variant_of(options, variant.precision) == &variant;
}

}  // namespace

std::vector<FastestCandidate> candidates_on(const ProviderReport& provider, const PrecisionChoice& choice,
                                            const LoadOptions& options) {
  std::vector<FastestCandidate> candidates{plain_candidate(provider, choice, options)};
  if (options.precision != any_precision) return candidates;
  const auto add = [&](const std::string& precision, const PrecisionVariant* variant, bool is_compared) {
    FastestCandidate candidate{.name = provider.id + " in " + precision,
                               .provider = provider,
                               .precision = precision,
                               .variant = variant,
                               .is_compared = is_compared,
                               .refusal = {}};
    if (is_compared && !choice.can_compare) {
      candidate.refusal = "its answers are compared by the program gpux, which is not beside this library";
    }
    if (variant != nullptr && variant->mean_cosine < options.min_cosine) {
      candidate.refusal = short_of(variant->mean_cosine, options.min_cosine);
    }
    candidates.push_back(std::move(candidate));
  };
  for (const std::string& precision : choice.precisions) {
    if (choice.is_float32 && precision != "fp32") add(precision, nullptr, true);
  }
  for (const PrecisionVariant& variant : options.precision_variants) {
    // The CPU's were compared there when they were made.
    if (is_variant_for(variant, provider, choice, options)) add(variant.precision, &variant, provider.id != "cpu");
  }
  return candidates;
}

Timing held_to(double min_cosine, Timing timing) {
  if (!timing.mean_cosine || *timing.mean_cosine >= min_cosine) return timing;
  timing.milliseconds.reset();
  timing.failure = short_of(*timing.mean_cosine, min_cosine);
  return timing;
}

std::string fastest_of(std::span<const Timing> timings) {
  std::string candidate;
  double best = std::numeric_limits<double>::infinity();
  for (const Timing& timing : timings) {
    if (!timing.milliseconds || *timing.milliseconds >= best) continue;
    best = *timing.milliseconds;
    candidate = timing.candidate;
  }
  return candidate;
}

std::string fastest_key(const fs::path& model, const ModelInfo& info, const LoadOptions& options,
                        std::span<const FastestCandidate> candidates, const Machine& machine) {
  std::string text = fmt::format("choice 3\nmodel {}\n", provider::model_digest(onnx::files_of(model, info)));
  text += fmt::format("machine {} {} processors\n", machine_fingerprint(), usable_processors(machine));
  for (const PciDevice& device : pci_accelerators(machine)) {
    text += fmt::format("device {} {:04x}:{:04x}\n", device.address, device.vendor_id, device.device_id);
  }
  for (const std::string& flag : flags_for(options)) text += fmt::format("option {}\n", flag);
  if (options.precision == any_precision) text += fmt::format("cosine {}\n", options.min_cosine);
  for (const FastestCandidate& candidate : candidates) {
    text += fmt::format("candidate {} {} [{}] [{}]\n", candidate.name, candidate.precision,
                        provider::library_version(candidate.provider.library),
                        provider::library_version(candidate.provider.core));
    if (candidate.variant == nullptr) continue;
    const fs::path& file = candidate.variant->file;
    text += fmt::format("variant {}\n", provider::model_digest(onnx::files_of(file, ModelInspector::inspect(file))));
  }
  return sha256_of(text);
}

FastestChoice choose_fastest(std::span<const FastestCandidate> candidates, const fs::path& file,
                             const Measure& measure) {
  if (auto kept = read_choice(candidates, file)) return std::move(*kept);
  FastestChoice choice;
  for (const FastestCandidate& candidate : candidates) {
    choice.timings.push_back(candidate.refusal.empty() ? measure(candidate)
                                                       : Timing{candidate.name, std::nullopt, candidate.refusal});
  }
  choice.candidate = fastest_of(choice.timings);
  if (!choice.candidate.empty()) keep_choice(choice, file);
  return choice;
}

fs::path find_program() {
  fs::path program = executable_path();
  if (program.filename() == "gpux") return program;
  std::error_code error;
  // Beside the library's folder; from Python, in the bin of the environment whose site-packages hold the library.
  for (fs::path prefix = own_library_path().parent_path(); prefix.has_relative_path(); prefix = prefix.parent_path()) {
    program = prefix / "bin" / "gpux";
    if (fs::is_regular_file(program, error)) return program;
  }
  return {};
}

Timing time_in_child(const fs::path& program, const fs::path& model, const LoadOptions& options,
                     const FastestCandidate& candidate) {
  std::vector<std::string> arguments{program.string(), "bench", fs::absolute(file_of(candidate, model)).string()};
  const auto add = [&](const char* flag, std::string value) {
    arguments.emplace_back(flag);
    arguments.push_back(std::move(value));
  };
  arguments.emplace_back("--json");
  add("--provider", candidate.provider.id + ",");
  add("--seconds", fmt::format("{}", measured_seconds));
  add("--warmup", std::to_string(warmup_runs));
  add("--samples-of", fs::absolute(model).string());
  if (candidate.is_compared) arguments.emplace_back("--compare");
  // As the load will have it, so that what is compiled now serves it.
  if (options.pooled_output) arguments.emplace_back("--pool");
  if (!candidate.shapes.empty()) {
    add("--provider-option", fmt::format("{}.shapes={}", candidate.provider.id, candidate.shapes));
  }
  for (std::string& flag : flags_for(options_for(candidate, options))) arguments.push_back(std::move(flag));
  log::debug("timing {} in a child process", candidate.name);
  try {
    return read_benchmark(
        candidate,
        run_process(arguments, child_limit, {"GPUX_STRICT=", "GPUX_PROFILE=", "GPUX_TIMEOUT=", "GPUX_PRECISION="}));
  } catch (const Error& error) {
    return {candidate.name, std::nullopt, error.message()};
  }
}

Timing time_here(const fs::path& model, const LoadOptions& options, const FastestCandidate& candidate) {
  const std::string& id = candidate.provider.id;
  LoadOptions alone = options_for(candidate, options);
  alone.provider = id + ",";
  alone.strict = Strictness::off;
  alone.profile.clear();
  alone.optimized_model.clear();
  try {
    const Runtime runtime(file_of(candidate, model), alone);
    const std::vector<std::string>& active = runtime.verdict().active;
    if (std::find(active.begin(), active.end(), id) == active.end()) {
      for (const ProviderAttempt& attempt : runtime.verdict().tried) {
        if (attempt.id == id) return {candidate.name, std::nullopt, attempt.reason};
      }
    }
    BenchmarkOptions benchmark;
    benchmark.seconds = measured_seconds;
    benchmark.warmup_runs = warmup_runs;
    return {candidate.name, runtime.benchmark(synthetic_inputs(runtime.info().signature), benchmark).median_ms, {}};
  } catch (const Error& error) {
    return {candidate.name, std::nullopt, error.message()};
  }
}

}  // namespace gpux::runtime
