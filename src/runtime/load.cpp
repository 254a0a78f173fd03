#include "runtime/load.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/home.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "model/variant.h"
#include "ort/core.h"
#include "provider/options.h"
#include "provider/placement.h"
#include "provider/probe.h"
#include "provider/select.h"

namespace gpux::runtime {
namespace {

using Outcome = ProviderAttempt::Outcome;
using provider::Request;

/// One provider that goes into the session.
struct Candidate {
  std::string id;
  ort::ProviderAppend append;
};

/// All that is decided before a session is made.
struct Plan {
  Request request;
  std::vector<Candidate> candidates;  // without the CPU, which every session has
  Verdict verdict;
  bool memory_limited_by_provider = false;
};

std::vector<std::string> names_of(std::span<const provider::PluginFile> plugins) {
  std::vector<std::string> names;
  for (const provider::PluginFile& plugin : plugins) names.push_back(plugin.name);
  return names;
}

provider::CommonOptions common_options(const LoadOptions& options) {
  return {.device = options.device,
          .memory_bytes = options.memory_bytes,
          .precision = options.precision,
          .cache_directory = options.cache_directory.string(),
          .threads = options.intra_threads};
}

// The options meant for one provider, by whatever name it was called. Also those of providers that are not chosen are
// checked, so that a spelling mistake shows on every machine.
const ProviderOptions* options_of(const LoadOptions& options, const std::string& id) {
  for (const ProviderOptions& entry : options.provider_options) {
    const provider::ProviderRow* row = provider::find_row(entry.provider);
    if (entry.provider == id || (row != nullptr && row->id == id)) return &entry;
  }
  return nullptr;
}

void check_all_options(const LoadOptions& options, const std::vector<std::string>& own_names) {
  for (const ProviderOptions& entry : options.provider_options) {
    try {
      const Request known = provider::parse_request(entry.provider, own_names);
      if (const auto* row = provider::find_row(entry.provider)) {
        (void)provider::resolve_options(*row, entry.values, common_options(options), false);
      }
    } catch (const Error& error) {
      throw entry.where.empty() ? error : error.within(entry.where);
    }
  }
}

provider::ResolvedOptions resolve(const ProviderReport& report, const LoadOptions& options) {
  const ProviderOptions* given = options_of(options, report.id);
  const provider::OptionList values = given == nullptr ? provider::OptionList{} : given->values;
  const provider::ProviderRow* row = provider::find_row(report.id);
  if (row == nullptr || row->id != report.id) {
    // A library of the user's own checks its options itself, when the session is made.
    provider::ResolvedOptions resolved;
    provider::CommonOptions common;
    for (const auto& option : values) {
      if (option.first == "device") {
        provider::read_common_option(option.first, option.second, common);
      } else {
        resolved.passed.push_back(option);
      }
    }
    resolved.device = common.device ? common.device : options.device;
    return resolved;
  }
  return provider::resolve_options(*row, values, common_options(options), report.source == "plugin");
}

// Hardware that is there while its provider is not installed is worth a word under auto.
void note_idle_hardware(std::span<const ProviderReport> reports, Verdict& verdict) {
  if (std::any_of(reports.begin(), reports.end(),
                  [](const auto& report) { return report.available && report.accelerated; })) {
    return;
  }
  for (const ProviderReport& report : reports) {
    const provider::ProviderRow* row = provider::find_row(report.id);
    if (report.available || row == nullptr || row->vendor_ids.empty() || report.remedy.empty()) continue;
    verdict.notes.push_back(fmt::format("there is an {} but {} cannot be used: {} (remedy: {})", row->hardware,
                                        report.id, report.reason, report.remedy));
  }
}

Plan make_plan(const LoadOptions& options) {
  const std::vector<ort::CoreFile> cores = ort::find_cores();
  const std::vector<provider::PluginFile> plugins = provider::find_plugins(options.provider_libraries);
  Plan plan;
  plan.request = provider::parse_request(options.provider, names_of(plugins));
  check_all_options(options, names_of(plugins));
  const provider::System system = provider::this_system();
  const std::vector<std::string> ids = provider::order_of(plan.request, system);
  std::vector<ProviderReport> reports = provider::survey(ids, cores, plugins);

  const std::filesystem::path wanted = provider::core_for(plan.request, reports, system);
  std::vector<ort::CoreFile> order = cores;
  if (!wanted.empty()) {
    std::stable_partition(order.begin(), order.end(), [&](const auto& core) { return core.library == wanted; });
  } else {
    std::stable_partition(order.begin(), order.end(), [](const auto& core) { return core.bridges.empty(); });
  }
  const ort::Core& core = ort::Core::open(order);
  provider::confirm(reports, plugins);

  Verdict& verdict = plan.verdict;
  verdict.requested = options.provider;
  verdict.requested_from = options.provider_from;
  verdict.runtime_version = core.version();
  verdict.runtime_path = core.library();
  verdict.notes = plan.request.remarks;
  if (plan.request.form == Request::Form::automatic) note_idle_hardware(reports, verdict);

  for (const provider::Selection::Step& step : provider::select(plan.request, reports, system, core.library()).steps) {
    const auto report =
        std::find_if(reports.begin(), reports.end(), [&](const ProviderReport& entry) { return entry.id == step.id; });
    ProviderAttempt attempt;
    attempt.id = step.id;
    attempt.ort_name = report->ort_name;
    attempt.outcome = step.outcome;
    attempt.reason = step.reason;
    attempt.remedy = step.remedy;
    attempt.devices = report->devices;
    if (step.outcome == Outcome::active) {
      provider::ResolvedOptions resolved;
      try {
        resolved = resolve(*report, options);
        if (step.id != "cpu") plan.candidates.push_back({step.id, provider::to_append(*report, resolved)});
      } catch (const Error& error) {
        const ProviderOptions* given = options_of(options, step.id);
        if (error.code() == ErrorCode::provider_unavailable) {
          attempt.outcome = Outcome::unavailable;
          attempt.reason = error.message();
        } else {
          throw given == nullptr || given->where.empty() ? error : error.within(given->where);
        }
      }
      attempt.options = resolved.passed;
      verdict.notes.insert(verdict.notes.end(), resolved.notes.begin(), resolved.notes.end());
      plan.memory_limited_by_provider = plan.memory_limited_by_provider || resolved.memory_limited;
    }
    verdict.tried.push_back(std::move(attempt));
  }
  return plan;
}

ProviderAttempt* attempt_of(Verdict& verdict, const std::string& id) {
  for (ProviderAttempt& attempt : verdict.tried) {
    if (attempt.id == id) return &attempt;
  }
  return nullptr;
}

// What strict insists on: the first name of the request, or the first accelerator found by a kind.
std::string insisted_on(const Plan& plan) {
  switch (plan.request.form) {
    case Request::Form::single:
    case Request::Form::list:
      return plan.request.ids.front();
    case Request::Form::kind:
      return plan.candidates.empty() ? plan.request.ids.front() : plan.candidates.front().id;
    default:
      return plan.candidates.empty() ? "cpu" : plan.candidates.front().id;
  }
}

[[noreturn]] void fail_strictly(const std::string& id, const Verdict& verdict) {
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.id != id) continue;
    throw Error(ErrorCode::provider_unavailable,
                fmt::format("strict: {} was asked for ({}) but {}{}", id, verdict.requested_from,
                            attempt.reason.empty() ? std::string("is not active") : attempt.reason,
                            attempt.remedy.empty() ? "" : fmt::format("; remedy: {}", attempt.remedy)));
  }
  throw Error(ErrorCode::provider_unavailable,
              fmt::format("strict: no {} can be used on this machine; 'gpux doctor' says why", id));
}

void check_before(const Plan& plan, const LoadOptions& options) {
  const bool nothing = std::none_of(plan.verdict.tried.begin(), plan.verdict.tried.end(),
                                    [](const auto& attempt) { return attempt.outcome == Outcome::active; });
  if (nothing) {
    std::string reasons;
    for (const ProviderAttempt& attempt : plan.verdict.tried) {
      reasons += fmt::format("; {}: {}{}", attempt.id, attempt.reason,
                             attempt.remedy.empty() ? "" : fmt::format(" (remedy: {})", attempt.remedy));
    }
    throw Error(ErrorCode::provider_unavailable,
                fmt::format("nothing of '{}' can be used{}; add cpu to the list to fall back", plan.verdict.requested,
                            reasons));
  }
  if (options.strict == Strictness::off) return;
  const std::string wanted = insisted_on(plan);
  if (wanted == "gpu" || wanted == "npu") fail_strictly(wanted, plan.verdict);
  for (const ProviderAttempt& attempt : plan.verdict.tried) {
    if (attempt.id == wanted && attempt.outcome != Outcome::active) fail_strictly(wanted, plan.verdict);
  }
}

bool mentions(const Error& error, const Candidate& candidate) {
  const std::string text = lower(error.message());
  std::string name = lower(candidate.append.name);
  if (const auto suffix = name.find("executionprovider"); suffix != std::string::npos) name.resize(suffix);
  return text.find(candidate.id) != std::string::npos || (!name.empty() && text.find(name) != std::string::npos);
}

// Which provider a failed creation is charged to: the one it names, else the first.
std::size_t culprit(const Error& error, const std::vector<Candidate>& candidates) {
  if (const auto* append = dynamic_cast<const ort::AppendError*>(&error)) return append->provider();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (mentions(error, candidates[i])) return i;
  }
  return 0;
}

Error model_error(const Error& error, const std::filesystem::path& model) {
  switch (error.code()) {
    case ErrorCode::resource_exhausted:
    case ErrorCode::permission:
    case ErrorCode::storage:
      return error;
    default:
      return {ErrorCode::invalid_model, fmt::format("'{}' cannot be loaded: {}", model.string(), error.message())};
  }
}

ort::SessionSettings settings_for(const LoadOptions& options, const std::filesystem::path& profile_prefix) {
  ort::SessionSettings settings;
  settings.intra_threads = options.intra_threads.value_or(usable_processors());
  settings.inter_threads = options.inter_threads.value_or(1);
  settings.optimization = static_cast<ort::OptimizationLevel>(options.optimization);
  settings.profile_prefix = profile_prefix;
  settings.optimized_model = options.optimized_model;
  settings.config = options.session_config;
  return settings;
}

bool has_cpu(const Verdict& verdict) {
  return std::any_of(verdict.tried.begin(), verdict.tried.end(),
                     [](const auto& attempt) { return attempt.id == "cpu"; });
}

void check_after(const Plan& plan, const LoadOptions& options) {
  if (options.strict == Strictness::off) return;
  const std::string wanted = insisted_on(plan);
  const Verdict& verdict = plan.verdict;
  if (std::find(verdict.active.begin(), verdict.active.end(), wanted) == verdict.active.end() &&
      verdict.node_count != 0) {
    fail_strictly(wanted, verdict);
  }
  if (options.strict != Strictness::nodes) return;
  // A single name stands for itself here; its chain and the CPU are what it must not fall back to.
  const std::vector<std::string> allowed =
      plan.request.form == Request::Form::list ? plan.request.ids : std::vector<std::string>{wanted};
  for (const std::string& id : verdict.active) {
    if (std::find(allowed.begin(), allowed.end(), id) != allowed.end()) continue;
    for (const ProviderAttempt& attempt : verdict.tried) {
      if (attempt.id != id) continue;
      throw Error(ErrorCode::provider_unavailable,
                  fmt::format("strict=nodes: {} of {} nodes run on {}, outside '{}'", attempt.node_count,
                              verdict.node_count, id, verdict.requested));
    }
  }
}

// The graph made for just this choice, or null.
const OptimizedGraph* graph_for(const Plan& plan, const LoadOptions& options) {
  if (!plan.candidates.empty()) return nullptr;  // providers that compile take the model's own graph
  const ort::Core* core = ort::Core::current();
  for (const OptimizedGraph& graph : options.optimized_graphs) {
    if (graph.provider == "cpu" && graph.runtime_version == core->version() && graph.device == processor_name() &&
        graph.optimization == to_string(options.optimization) && graph.machine == machine_fingerprint()) {
      return &graph;
    }
  }
  return nullptr;
}

}  // namespace

Loaded load(const std::filesystem::path& model, const ModelInfo& /*info*/, const LoadOptions& options) {
  Plan plan = make_plan(options);
  check_before(plan, options);
  const std::string wanted = insisted_on(plan);

  std::filesystem::path profile_prefix;
  if (!options.profile.empty()) profile_prefix = options.profile.string() + ".part";
  ort::SessionSettings settings = settings_for(options, profile_prefix);
  const std::uint64_t resident_before_bytes = resident_bytes();
  std::optional<ort::Session> session;
  while (!session) {
    settings.providers.clear();
    for (const Candidate& candidate : plan.candidates) settings.providers.push_back(candidate.append);
    try {
      const OptimizedGraph* graph = graph_for(plan, options);
      if (graph != nullptr) settings.optimization = ort::OptimizationLevel::disabled;
      session.emplace(ort::Session::from_file(graph == nullptr ? model : graph->file, settings));
      if (graph != nullptr) plan.verdict.notes.push_back("the graph optimized when the package was built is used");
    } catch (const Error& error) {
      if (plan.candidates.empty()) throw model_error(error, model);
      const std::size_t index = culprit(error, plan.candidates);
      ProviderAttempt* attempt = attempt_of(plan.verdict, plan.candidates[index].id);
      attempt->outcome = Outcome::failed;
      attempt->reason = "no session came to be with it: " + error.message();
      log::debug("{} dropped: {}", attempt->id, error.message());
      const std::string dropped = attempt->id;
      plan.candidates.erase(plan.candidates.begin() + static_cast<std::ptrdiff_t>(index));
      if (options.strict != Strictness::off && dropped == wanted) fail_strictly(wanted, plan.verdict);
    }
  }

  const std::vector<ort::AssignedNode> nodes = session->assignment();
  if (!has_cpu(plan.verdict)) {
    // ONNX Runtime gives to the CPU what a list without it leaves over; the verdict says so.
    ProviderAttempt attempt;
    attempt.id = "cpu";
    attempt.ort_name = "CPUExecutionProvider";
    attempt.outcome = Outcome::active;
    attempt.reason = "not in the list: it took what the others left";
    plan.verdict.tried.push_back(std::move(attempt));
  }
  provider::apply_placement(nodes, plan.verdict);
  const std::vector<std::string>& active = plan.verdict.active;
  const std::string first = plan.request.form == Request::Form::kind ? wanted : insisted_on(plan);
  plan.verdict.fell_back =
      !nodes.empty() && wanted != "cpu" && std::find(active.begin(), active.end(), first) == active.end();
  check_after(plan, options);
  return {std::move(*session), std::move(plan.verdict), profile_prefix, plan.memory_limited_by_provider,
          resident_before_bytes};
}

}  // namespace gpux::runtime
