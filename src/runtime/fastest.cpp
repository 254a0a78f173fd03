#include "runtime/fastest.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/home.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/process.h"
#include "base/sha256.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "model/variant.h"

namespace gpux::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double measured_seconds = 1;
constexpr std::uint64_t warmup_runs = 2;
// Engines are built at the first load; that may take minutes, but not for ever.
constexpr std::chrono::minutes child_limit{5};

std::string library_version(const fs::path& library) {
  std::error_code error;
  const auto size = fs::file_size(library, error);
  if (error) return library.string();
  const auto changed = fs::last_write_time(library, error).time_since_epoch().count();
  return fmt::format("{} {} {}", library.string(), size, changed);
}

std::optional<FastestChoice> read_choice(std::span<const ProviderReport> candidates, const fs::path& file) {
  FastestChoice choice;
  try {
    const json kept = json::parse(read_file(file, 1 << 20));
    choice.provider = kept.at("provider").get<std::string>();
    for (const json& entry : kept.at("timings")) {
      Timing timing{entry.at("provider").get<std::string>(), std::nullopt, entry.value("failure", "")};
      if (entry.contains("milliseconds")) timing.milliseconds = entry.at("milliseconds").get<double>();
      choice.timings.push_back(std::move(timing));
    }
  } catch (const Error&) {
    return std::nullopt;  // there is none
  } catch (const json::exception& exception) {
    log::debug("'{}' is not what was kept there: {}", file.string(), exception.what());
    return std::nullopt;
  }
  const bool fits = choice.timings.size() == candidates.size() && choice.provider == fastest_of(choice.timings) &&
                    std::equal(candidates.begin(), candidates.end(), choice.timings.begin(),
                               [](const auto& report, const auto& timing) { return report.id == timing.provider; });
  if (!fits || choice.provider.empty()) return std::nullopt;
  choice.remembered = true;
  return choice;
}

void keep_choice(const FastestChoice& choice, const fs::path& file) {
  json kept{{"provider", choice.provider}, {"timings", json::array()}};
  for (const Timing& timing : choice.timings) {
    json entry{{"provider", timing.provider}};
    if (timing.milliseconds) entry["milliseconds"] = *timing.milliseconds;
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
  if (!options.cache_directory.empty()) add("--cache-dir", fs::absolute(options.cache_directory).string());
  if (options.intra_threads) add("--threads", std::to_string(*options.intra_threads));
  if (options.inter_threads) add("--inter-threads", std::to_string(*options.inter_threads));
  add("--optimization", std::string(to_string(options.optimization)));
  for (const auto& [key, value] : options.session_config) add("--session-option", key + "=" + value);
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
Timing read_benchmark(const std::string& provider, const ProcessResult& result) {
  if (result.timed_out) return {provider, std::nullopt, fmt::format("no time within {} min", child_limit.count())};
  if (result.exit_code != 0) {
    std::string words = last_line(result.standard_error);
    if (words.empty()) words = fmt::format("its process ended with {}", result.exit_code);
    return {provider, std::nullopt, std::move(words)};
  }
  try {
    const json report = json::parse(result.standard_output);
    const auto active = report.at("verdict").at("active").get<std::vector<std::string>>();
    if (std::find(active.begin(), active.end(), provider) == active.end()) {
      return {provider, std::nullopt, "it takes none of the model's nodes"};
    }
    return {provider, report.at("median_time_ms").get<double>(), {}};
  } catch (const json::exception& exception) {
    return {provider, std::nullopt, std::string("its process answered something else: ") + exception.what()};
  }
}

}  // namespace

std::string fastest_of(std::span<const Timing> timings) {
  std::string provider;
  double best = std::numeric_limits<double>::infinity();
  for (const Timing& timing : timings) {
    if (!timing.milliseconds || *timing.milliseconds >= best) continue;
    best = *timing.milliseconds;
    provider = timing.provider;
  }
  return provider;
}

std::string fastest_key(const fs::path& model, const ModelInfo& info, const LoadOptions& options,
                        std::span<const ProviderReport> candidates) {
  std::string text = fmt::format("model {}\n", sha256_of_file(model));
  for (const ExternalFile& file : info.external_files) text += fmt::format("data {} {}\n", file.location, file.bytes);
  text += fmt::format("machine {} {} processors\n", machine_fingerprint(), usable_processors());
  for (const PciDevice& device : pci_accelerators()) {
    text += fmt::format("device {} {:04x}:{:04x}\n", device.address, device.vendor_id, device.device_id);
  }
  for (const std::string& flag : flags_for(options)) text += fmt::format("option {}\n", flag);
  for (const ProviderReport& candidate : candidates) {
    text += fmt::format("candidate {} [{}] [{}]\n", candidate.id, library_version(candidate.library),
                        library_version(candidate.core));
  }
  return sha256_of(text);
}

FastestChoice choose_fastest(std::span<const ProviderReport> candidates, const fs::path& file, const Measure& measure) {
  if (auto kept = read_choice(candidates, file)) return std::move(*kept);
  FastestChoice choice;
  for (const ProviderReport& candidate : candidates) choice.timings.push_back(measure(candidate));
  choice.provider = fastest_of(choice.timings);
  if (!choice.provider.empty()) keep_choice(choice, file);
  return choice;
}

fs::path find_program() {
  fs::path program = executable_path();
  if (program.filename() == "gpux") return program;
  program = own_library_path().parent_path().parent_path() / "bin" / "gpux";
  std::error_code error;
  return fs::is_regular_file(program, error) ? program : fs::path();
}

Timing time_in_child(const fs::path& program, const fs::path& model, const LoadOptions& options,
                     const ProviderReport& candidate) {
  std::vector<std::string> arguments{
      program.string(),   "bench",     fs::absolute(model).string(),        "--json",   "--provider",
      candidate.id + ",", "--seconds", fmt::format("{}", measured_seconds), "--warmup", std::to_string(warmup_runs)};
  for (std::string& flag : flags_for(options)) arguments.push_back(std::move(flag));
  log::debug("timing {} in a child process", candidate.id);
  try {
    return read_benchmark(
        candidate.id,
        run_process(arguments, child_limit, {"GPUX_STRICT=", "GPUX_PROFILE=", "GPUX_TIMEOUT=", "GPUX_PRECISION="}));
  } catch (const Error& error) {
    return {candidate.id, std::nullopt, error.message()};
  }
}

Timing time_here(const fs::path& model, const LoadOptions& options, const ProviderReport& candidate) {
  LoadOptions alone = options;
  alone.provider = candidate.id + ",";
  alone.strict = Strictness::off;
  alone.profile.clear();
  alone.optimized_model.clear();
  try {
    const Runtime runtime(model, alone);
    const std::vector<std::string>& active = runtime.verdict().active;
    if (std::find(active.begin(), active.end(), candidate.id) == active.end()) {
      for (const ProviderAttempt& attempt : runtime.verdict().tried) {
        if (attempt.id == candidate.id) return {candidate.id, std::nullopt, attempt.reason};
      }
    }
    BenchmarkOptions benchmark;
    benchmark.seconds = measured_seconds;
    benchmark.warmup_runs = warmup_runs;
    return {candidate.id, runtime.benchmark(synthetic_inputs(runtime.info().signature), benchmark).median_ms, {}};
  } catch (const Error& error) {
    return {candidate.id, std::nullopt, error.message()};
  }
}

}  // namespace gpux::runtime
