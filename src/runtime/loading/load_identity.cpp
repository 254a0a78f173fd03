#include "runtime/loading/load_identity.h"

#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "ort/core.h"
#include "provider/engine_cache.h"
#include "provider/library_version.h"
#include "provider/options.h"
#include "provider/probe.h"
#include "provider/table.h"
#include "runtime/loading/session_of_file.h"
#include "store/variant.h"

namespace gpux::runtime {
namespace {

using Outcome = ProviderAttempt::Outcome;

// What is compiled for a device is for its driver, too.
std::string name_of(const Device& device) {
  std::string name = device.name;
  if (!device.architecture.empty()) name += " " + device.architecture;
  if (!device.driver.empty()) name += " driver " + device.driver;
  return name;
}

// What an optimized graph of this choice depends on.
OptimizedGraph graph_of(const Plan& plan, const LoadOptions& options) {
  OptimizedGraph graph{.file = {},
                       .provider = "cpu",
                       .runtime_version = ort::Core::current()->version(),
                       .device = processor_name(Machine::this_one()),
                       .optimization = std::string(to_string(options.optimization)),
                       .machine = machine_fingerprint(),
                       .provider_options = {}};
  if (plan.candidates.empty()) return graph;
  std::vector<std::string> ids, devices, values;
  for (const Candidate& candidate : plan.candidates) {
    ids.push_back(candidate.id);
    // What it compiled is for its library, as engines of the cache are.
    if (const auto* row = provider::find_row(candidate.id); row != nullptr && provider::can_keep_engines(*row)) {
      graph.runtime_version =
          provider::compiled_by(graph.runtime_version, candidate.library, provider::loaded_compilers(*row));
    }
    for (const ProviderAttempt& attempt : plan.verdict.tried) {
      if (attempt.id == candidate.id && !attempt.devices.empty()) devices.push_back(name_of(attempt.devices.front()));
    }
    const auto resolved = plan.options.find(candidate.id);
    if (resolved == plan.options.end()) continue;
    for (const auto& [name, value] : resolved->second.passed) {
      if (provider::is_cache_option(name)) continue;  // where engines are kept decides over nothing
      values.push_back(fmt::format("{}.{}={}", candidate.id, name, value));
    }
  }
  graph.provider = join(ids, ",");
  graph.device = join(devices, ",");
  graph.provider_options = join(values, ",");
  return graph;
}

}  // namespace

std::string computed_by(const Plan& plan, const LoadOptions& options) {
  const OptimizedGraph graph = graph_of(plan, options);
  std::string text =
      fmt::format("runtime {} {}\nmachine {}\nproviders {} on {} with {}\noptimization {}\n", graph.runtime_version,
                  provider::library_version(plan.verdict.runtime_path), graph.machine, graph.provider, graph.device,
                  graph.provider_options, graph.optimization);
  for (const Candidate& candidate : plan.candidates) {
    text += fmt::format("library {}\n", provider::library_version(candidate.library));
  }
  for (const std::string& id : plan.verdict.active) text += fmt::format("active {}\n", id);
  for (const auto& [key, value] : options.session_config) text += fmt::format("session {}={}\n", key, value);
  for (const std::filesystem::path& library : options.custom_operator_libraries) {
    text += fmt::format("custom operators {} {}\n", library.string(), provider::library_version(library));
  }
  return text;
}

isolation::LoadedIdentity identity_of(const Plan& plan, const LoadOptions& options,
                                      const std::filesystem::path& loaded) {
  const Verdict& verdict = plan.verdict;
  isolation::LoadedIdentity identity{{"ONNX Runtime", fmt::format("{} ({})", verdict.runtime_version,
                                                                  provider::library_content(verdict.runtime_path))},
                                     {"the precision", verdict.precision},
                                     {"what it runs on", join(verdict.active)},
                                     {"the ONNX file that runs", loaded.filename().string()}};
  for (const Candidate& candidate : plan.candidates) {
    const std::string library =
        candidate.library.empty() ? "ONNX Runtime's own" : provider::library_content(candidate.library);
    identity.emplace_back("provider " + candidate.id, library);
  }
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome != Outcome::active || attempt.devices.empty()) continue;
    identity.emplace_back("the device of " + attempt.id, name_of(attempt.devices.front()));
  }
  for (const std::filesystem::path& library : options.custom_operator_libraries) {
    identity.emplace_back(fmt::format("the library of operators '{}'", library.string()),
                          provider::library_content(library));
  }
  return identity;
}

const OptimizedGraph* graph_for(const Plan& plan, const LoadOptions& options) {
  OptimizedGraph wanted = graph_of(plan, options);
  for (const OptimizedGraph& graph : options.optimized_graphs) {
    wanted.file = graph.file;
    if (graph == wanted) return &graph;
  }
  return nullptr;
}

OptimizedGraph written_graph(const Plan& plan, const LoadOptions& options, ort::SessionSettings settings) {
  const std::filesystem::path file = std::exchange(settings.optimized_model, {});
  if (file.empty()) return {};
  settings.profile_prefix.clear();
  for (const ProviderAttempt& attempt : plan.verdict.tried) {
    if (attempt.outcome != Outcome::failed) continue;
    throw Error(ErrorCode::usage,
                fmt::format("no optimized graph can be kept with {}: {}", attempt.id, attempt.reason));
  }
  OptimizedGraph graph = graph_of(plan, options);
  graph.file = file;
  if (plan.candidates.empty()) return graph;
  if (plan.verdict.active == std::vector<std::string>{"cpu"}) {
    throw Error(
        ErrorCode::usage,
        fmt::format("no optimized graph can be kept: {} took nothing of the model; ask for cpu alone", graph.provider));
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) ||
      !ModelInspector::inspect(file).operators.contains("com.microsoft::EPContext")) {
    throw Error(ErrorCode::usage,
                fmt::format("no optimized graph can be kept: {} gives nothing of what it compiles", graph.provider));
  }
  settings.optimization = ort::OptimizationLevel::disabled;
  try {
    (void)session_of_file(file, settings);
  } catch (const Error& failure) {
    throw Error(ErrorCode::provider_unavailable,
                fmt::format("no optimized graph can be kept: {} cannot load what it compiled: {}", graph.provider,
                            failure.message()));
  }
  return graph;
}

}  // namespace gpux::runtime
