#include "runtime/load.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "base/home.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "model/variant.h"
#include "ort/core.h"
#include "provider/options.h"
#include "provider/placement.h"
#include "provider/probe.h"
#include "provider/select.h"
#include "runtime/fastest.h"

namespace gpux::runtime {
namespace {

using Outcome = ProviderAttempt::Outcome;
using provider::Request;

constexpr const char* any_precision = "any";

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
  std::string precision;                                     // that is asked for; empty: the model's own
  std::map<std::string, provider::ResolvedOptions> options;  // of each provider that goes into the session, by id
};

/// What is there to choose from.
struct Machine {
  std::vector<ort::CoreFile> cores;
  std::vector<provider::PluginFile> plugins;
  std::vector<std::string> plugin_names;
};

Machine find_machine(const LoadOptions& options) {
  Machine machine{ort::find_cores(), provider::find_plugins(options.provider_libraries), {}};
  for (const provider::PluginFile& plugin : machine.plugins) machine.plugin_names.push_back(plugin.name);
  return machine;
}

bool can_run(const PrecisionVariant& variant) {
  return variant.provider == "cpu" && (variant.weight_bits <= 7 || adds_byte_products_exactly());
}

// The CPU's variant of that precision, or null.
const PrecisionVariant* variant_of(const LoadOptions& options, const std::string& precision) {
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (variant.precision == precision && can_run(variant)) return &variant;
  }
  return nullptr;
}

// That of accelerators, or null.
const PrecisionVariant* accelerator_variant_of(const LoadOptions& options, const std::string& precision) {
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (variant.precision == precision && variant.provider == "gpu") return &variant;
  }
  return nullptr;
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
  provider::CommonOptions common = common_options(options);
  // The CPU is given a precision by a variant of the model, not by an option.
  if (report.id == "cpu" && variant_of(options, options.precision) != nullptr) common.precision.clear();
  const auto resolved = [&] {
    return provider::resolve_options(*row, values, common, report.source == "plugin", report.devices);
  };
  if (report.id == "cpu" || accelerator_variant_of(options, options.precision) == nullptr) return resolved();
  // A provider's own conversion goes before the variant, which is for those that have none.
  provider::ResolvedOptions own = resolved();
  if (!own.precision.empty()) return own;
  common.precision.clear();
  return resolved();
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

// The core that the request needs first; without such a need one that is nobody's bridge.
std::vector<ort::CoreFile> in_order(std::vector<ort::CoreFile> cores, const std::filesystem::path& wanted) {
  std::stable_partition(cores.begin(), cores.end(), [&](const ort::CoreFile& core) {
    return wanted.empty() ? core.bridges.empty() : core.library == wanted;
  });
  return cores;
}

// Puts a chosen provider among the candidates, with its options.
void add_candidate(const ProviderReport& report, const LoadOptions& options, ProviderAttempt& attempt, Plan& plan) {
  try {
    provider::ResolvedOptions resolved = resolve(report, options);
    attempt.options = resolved.passed;
    if (report.id != "cpu") plan.candidates.push_back({report.id, provider::to_append(report, resolved)});
    plan.options.emplace(report.id, std::move(resolved));
  } catch (const Error& error) {
    const ProviderOptions* given = options_of(options, report.id);
    if (error.code() != ErrorCode::provider_unavailable) {
      throw given == nullptr || given->where.empty() ? error : error.within(given->where);
    }
    attempt.outcome = Outcome::unavailable;
    attempt.reason = error.message();
    attempt.options.clear();
  }
}

Plan make_plan(const Request& request, const Machine& machine, const LoadOptions& options) {
  Plan plan{.request = request, .candidates = {}, .verdict = {}, .precision = options.precision, .options = {}};
  const provider::System system = provider::this_system();
  const std::vector<std::string> ids = provider::order_of(plan.request, system);
  std::vector<ProviderReport> reports = provider::survey(ids, machine.cores, machine.plugins);
  const ort::Core& core = ort::Core::open(in_order(machine.cores, provider::core_for(plan.request, reports, system)));
  provider::confirm(reports, machine.plugins);

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
    attempt.other_core = step.other_core;
    attempt.remedy = step.remedy;
    attempt.devices = report->devices;
    if (step.outcome == Outcome::active) add_candidate(*report, options, attempt, plan);
    verdict.tried.push_back(std::move(attempt));
  }
  return plan;
}

/// The CPU with a variant of the model, as one of the candidates.
struct VariantCandidate {
  std::string name;  // "cpu in int8"
  const PrecisionVariant* variant;
};

// Those near enough to the model, where any precision will do.
std::vector<VariantCandidate> variant_candidates(const LoadOptions& options) {
  std::vector<VariantCandidate> candidates;
  if (options.precision != any_precision) return candidates;
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (!can_run(variant) || variant.mean_cosine < options.min_cosine) continue;
    candidates.push_back({"cpu in " + variant.precision, &variant});
  }
  return candidates;
}

// A choice depends on the variants that it is made from.
std::string key_of(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options,
                   std::span<const ProviderReport> candidates, std::span<const PrecisionVariant* const> variants) {
  std::string key = fastest_key(model, info, options, candidates);
  for (const PrecisionVariant* variant : variants) key = sha256_of(key + sha256_of_file(variant->file));
  return key;
}

// "fastest": what can be used here by its libraries, each timed on this model.
FastestChoice find_fastest(std::span<const ProviderReport> reports, const Machine& machine,
                           const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& given) {
  const std::vector<VariantCandidate> near = variant_candidates(given);
  const PrecisionVariant* asked_for = variant_of(given, given.precision);
  LoadOptions options = given;
  if (options.precision == any_precision) options.precision.clear();
  std::vector<const PrecisionVariant*> variants;
  if (asked_for != nullptr) variants.push_back(asked_for);
  const std::filesystem::path program = find_program();
  // Without the program nothing but this process can measure, and that has one core.
  const ort::Core* core = program.empty() ? &ort::Core::open(in_order(machine.cores, {})) : ort::Core::current();
  std::vector<ProviderReport> candidates;
  for (const ProviderReport& report : reports) {
    const bool elsewhere = core != nullptr && !report.core.empty() && report.core != core->library();
    if (!report.available || elsewhere) continue;
    candidates.push_back(report);
    if (report.id != "cpu") continue;
    for (const VariantCandidate& one : near) {
      candidates.push_back(report);
      candidates.back().id = one.name;
      variants.push_back(one.variant);
    }
  }
  const Measure measure = [&](const ProviderReport& candidate) {
    const PrecisionVariant* variant = candidate.id == "cpu" ? asked_for : nullptr;
    ProviderReport provider = candidate;
    for (const VariantCandidate& one : near) {
      if (one.name != candidate.id) continue;
      variant = one.variant;
      provider.id = "cpu";
    }
    LoadOptions with = options;
    if (variant != nullptr) with.precision.clear();
    const std::filesystem::path& file = variant == nullptr ? model : variant->file;
    Timing timing = program.empty() ? time_here(file, with, provider) : time_in_child(program, file, with, provider);
    timing.provider = candidate.id;
    return timing;
  };
  const std::string key = key_of(model, info, options, candidates, variants);
  return choose_fastest(candidates, home_folder() / "fastest" / (key + ".json"), measure);
}

std::string tell(const FastestChoice& choice) {
  std::vector<std::string> times;
  for (const Timing& timing : choice.timings) {
    if (timing.milliseconds) times.push_back(fmt::format("{} {:.3g} ms", timing.provider, *timing.milliseconds));
  }
  return fmt::format("{} a run: {}", choice.remembered ? "measured before" : "measured", join(times));
}

// The others of the request, with what became of each.
void add_slower(const FastestChoice& choice, std::span<const ProviderReport> reports, Verdict& verdict) {
  for (const ProviderReport& report : reports) {
    if (std::any_of(verdict.tried.begin(), verdict.tried.end(),
                    [&](const auto& attempt) { return attempt.id == report.id; })) {
      continue;
    }
    ProviderAttempt attempt;
    attempt.id = report.id;
    attempt.ort_name = report.ort_name;
    attempt.devices = report.devices;
    attempt.reason = report.reason;
    attempt.remedy = report.remedy;
    if (report.available) {
      attempt.reason = fmt::format("not with this core: it needs '{}'", report.core.string());
      attempt.remedy = "ask for it first: --provider " + report.id;
    }
    for (const Timing& timing : choice.timings) {
      if (timing.provider != report.id) continue;
      attempt.outcome = timing.milliseconds ? Outcome::not_needed : Outcome::failed;
      attempt.reason = timing.milliseconds ? fmt::format("slower on this model: {:.3g} ms a run", *timing.milliseconds)
                                           : timing.failure;
      attempt.remedy.clear();
    }
    verdict.tried.insert(verdict.tried.end() - 1, std::move(attempt));
  }
}

Plan plan_fastest(const Request& request, const Machine& machine, const std::filesystem::path& model,
                  const ModelInfo& info, const LoadOptions& given) {
  std::vector<std::string> ids = provider::order_of(request, provider::this_system());
  for (const ProviderLibrary& library : given.provider_libraries) {
    if (std::find(ids.begin(), ids.end(), library.name) == ids.end()) ids.insert(ids.end() - 1, library.name);
  }
  const std::vector<ProviderReport> reports = provider::survey(ids, machine.cores, machine.plugins);
  FastestChoice choice = find_fastest(reports, machine, model, info, given);
  const std::string times = tell(choice);
  LoadOptions options = given;
  if (options.precision == any_precision) options.precision.clear();
  for (const VariantCandidate& one : variant_candidates(given)) {
    if (one.name != choice.provider) continue;
    options.precision = one.variant->precision;
    choice.provider = "cpu";
  }
  if (choice.provider.empty()) {
    Plan plan = make_plan(provider::parse_request("auto"), machine, options);
    plan.verdict.notes.push_back("nothing could be timed on this model, so the choice is auto's");
    add_slower(choice, reports, plan.verdict);
    return plan;
  }
  const std::string list = choice.provider == "cpu" ? "cpu," : choice.provider + ",cpu";
  Plan plan = make_plan(provider::parse_request(list, machine.plugin_names), machine, options);
  plan.verdict.notes.push_back(times);
  add_slower(choice, reports, plan.verdict);
  return plan;
}

Plan make_plan(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options) {
  const Machine machine = find_machine(options);
  const Request request = provider::parse_request(options.provider, machine.plugin_names);
  check_all_options(options, machine.plugin_names);
  if (request.form == Request::Form::fastest) return plan_fastest(request, machine, model, info, options);
  if (options.precision == any_precision) {
    throw Error(ErrorCode::usage, "precision any: only the provider fastest measures which is quickest");
  }
  return make_plan(request, machine, options);
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
                fmt::format("strict: {} was asked for ({}): {}{}", id, verdict.requested_from,
                            attempt.reason.empty() ? std::string("it is not active") : attempt.reason,
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

void check_after(const Plan& plan, const std::string& wanted, const LoadOptions& options) {
  if (options.strict == Strictness::off) return;
  const Verdict& verdict = plan.verdict;
  if (std::find(verdict.active.begin(), verdict.active.end(), wanted) == verdict.active.end() &&
      verdict.node_count != 0) {
    fail_strictly(wanted, verdict);
  }
  if (options.strict != Strictness::nodes) return;
  // A single name stands for itself here; its chain and the CPU are what it must not fall back to.
  const bool listed = plan.request.form == Request::Form::list && plan.request.text == plan.verdict.requested;
  const std::vector<std::string> allowed = listed ? plan.request.ids : std::vector<std::string>{wanted};
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

// What most of the model's weights are.
std::string precision_of(const ModelInfo& info) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> names{{{"float32", "fp32"},
                                                                                        {"float64", "fp64"},
                                                                                        {"float16", "fp16"},
                                                                                        {"bfloat16", "bf16"},
                                                                                        {"int8", "int8"},
                                                                                        {"uint8", "int8"},
                                                                                        {"int4", "int4"},
                                                                                        {"uint4", "int4"},
                                                                                        {"int2", "int2"},
                                                                                        {"uint2", "int2"}}};
  std::string precision;
  std::uint64_t most = 0;
  for (const auto& [type, name] : names) {
    const auto found = info.parameter_types.find(std::string(type));
    if (found == info.parameter_types.end() || found->second <= most) continue;
    most = found->second;
    precision = name;
  }
  return precision;
}

// Names what runs, and says where that is not what was asked for.
void tell_precision(const Plan& plan, const ModelInfo& info, const LoadOptions& options, const PrecisionVariant* used,
                    Verdict& verdict) {
  const std::string front = verdict.active.empty() ? std::string() : verdict.active.front();
  const auto resolved = plan.options.find(front);
  if (used != nullptr) {
    verdict.precision = used->precision;
    verdict.notes.push_back(fmt::format("the model's {} variant is used, of a mean cosine of {:.4f} to it",
                                        used->precision, used->mean_cosine));
    return;
  }
  const bool by_provider = front != "cpu" && resolved != plan.options.end() && !resolved->second.precision.empty();
  verdict.precision = by_provider ? resolved->second.precision : precision_of(info);
  if (front != "cpu" || plan.precision.empty() || verdict.precision == plan.precision) return;
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (variant.precision != plan.precision) continue;
    const char* why = variant.provider != "cpu" ? "it is for accelerators, and the CPU runs the model"
                      : can_run(variant)        ? "it is for the CPU alone"
                                         : "its weights of 8 bits need a processor with VNNI, which this one lacks";
    const std::string note = fmt::format("the model's {} variant is not used: {}", plan.precision, why);
    if (options.strict != Strictness::off) throw Error(ErrorCode::provider_unavailable, "strict: " + note);
    verdict.notes.push_back(note);
    return;
  }
}

// What was made of the options of those that hold nodes. What the CPU lacks counts only where it runs the model alone.
void tell_options(const Plan& plan, const LoadOptions& options, Verdict& verdict) {
  for (const auto& [id, resolved] : plan.options) {
    verdict.notes.insert(verdict.notes.end(), resolved.notes.begin(), resolved.notes.end());
    const bool active = std::find(verdict.active.begin(), verdict.active.end(), id) != verdict.active.end();
    if (!active || (id == "cpu" && verdict.active.size() > 1)) continue;
    if (options.strict != Strictness::off && !resolved.unenforced.empty()) {
      throw Error(ErrorCode::provider_unavailable, "strict: " + join(resolved.unenforced, "; "));
    }
    verdict.notes.insert(verdict.notes.end(), resolved.unenforced.begin(), resolved.unenforced.end());
  }
}

// Whether the provider that holds the most nodes keeps to the memory limit by itself.
bool limits_memory(const Plan& plan) {
  if (plan.verdict.active.empty()) return false;
  const auto resolved = plan.options.find(plan.verdict.active.front());
  return resolved != plan.options.end() && resolved->second.memory_limited;
}

// ONNX Runtime starts a profile for each session that it tries, also for those that come to nothing.
void remove_profiles(const std::filesystem::path& prefix) {
  if (prefix.empty()) return;
  std::error_code error;
  const std::filesystem::path folder = prefix.has_parent_path() ? prefix.parent_path() : std::filesystem::path(".");
  const std::string stem = prefix.filename();
  std::vector<std::filesystem::path> left;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(stem)) left.push_back(entry->path());
  }
  for (const std::filesystem::path& file : left) std::filesystem::remove(file, error);
}

// Which provider could not be part of a session, in the words of `error`. Throws where it is not a provider's fault.
void drop_culprit(const Error& error, const std::filesystem::path& model, const std::string& wanted,
                  const LoadOptions& options, Plan& plan) {
  const std::size_t index = culprit(error, plan.candidates);
  const std::string id = plan.candidates[index].id;
  const ProviderOptions* given = options_of(options, id);
  if (error.code() == ErrorCode::invalid_input && given != nullptr && provider::find_row(id) == nullptr) {
    // Only the user's own libraries check their options themselves.
    const Error refused(ErrorCode::usage, fmt::format("provider {}: {}", id, error.message()));
    throw given->where.empty() ? refused : refused.within(given->where);
  }
  ProviderAttempt* attempt = attempt_of(plan.verdict, id);
  attempt->outcome = Outcome::failed;
  attempt->reason = "no session came to be with it: " + error.message();
  log::debug("{} dropped: {}", id, error.message());
  plan.candidates.erase(plan.candidates.begin() + static_cast<std::ptrdiff_t>(index));
  plan.options.erase(id);
  if (options.strict == Strictness::off || id != wanted) return;
  try {
    // A model that no provider can load is to be told as such.
    (void)ort::Session::from_file(model, settings_for(options, {}));
  } catch (const Error& without) {
    throw model_error(without, model);
  }
  fail_strictly(wanted, plan.verdict);
}

}  // namespace

void discard_profile(Loaded& loaded) {
  if (loaded.profile_prefix.empty()) return;
  (void)loaded.session.end_profiling();
  remove_profiles(loaded.profile_prefix);
  loaded.profile_prefix.clear();
}

namespace {

// The variant that the plan's providers are to run; null: the model itself.
const PrecisionVariant* variant_for(const Plan& plan, const LoadOptions& options) {
  if (plan.candidates.empty()) return variant_of(options, plan.precision);
  const auto first = plan.options.find(plan.candidates.front().id);
  const bool converts_itself = first != plan.options.end() && !first->second.precision.empty();
  return converts_itself ? nullptr : accelerator_variant_of(options, plan.precision);
}

}  // namespace

Loaded load(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options) {
  Plan plan = make_plan(model, info, options);
  check_before(plan, options);
  const std::string wanted = insisted_on(plan);

  std::filesystem::path profile_prefix;
  if (!options.profile.empty()) profile_prefix = fmt::format("{}.{}.part", options.profile.string(), ::getpid());
  ort::SessionSettings settings = settings_for(options, profile_prefix);
  const std::uint64_t resident_before_bytes = resident_bytes();
  std::optional<ort::Session> session;
  const PrecisionVariant* variant = nullptr;
  try {
    while (!session) {
      settings.providers.clear();
      for (const Candidate& candidate : plan.candidates) settings.providers.push_back(candidate.append);
      try {
        variant = variant_for(plan, options);
        const OptimizedGraph* graph = variant == nullptr ? graph_for(plan, options) : nullptr;
        if (graph != nullptr) settings.optimization = ort::OptimizationLevel::disabled;
        const std::filesystem::path& file = variant != nullptr ? variant->file : graph != nullptr ? graph->file : model;
        session.emplace(ort::Session::from_file(file, settings));
        if (graph != nullptr) plan.verdict.notes.push_back("the graph optimized when the package was built is used");
      } catch (const Error& error) {
        remove_profiles(profile_prefix);
        if (plan.candidates.empty()) throw model_error(error, model);
        drop_culprit(error, model, wanted, options, plan);
      }
    }
    Verdict& verdict = plan.verdict;
    if (!has_cpu(verdict)) {
      // ONNX Runtime gives to the CPU what a list without it leaves over; the verdict says so.
      ProviderAttempt attempt;
      attempt.id = "cpu";
      attempt.ort_name = "CPUExecutionProvider";
      attempt.outcome = Outcome::active;
      attempt.reason = "not in the list: it took what the others left";
      verdict.tried.push_back(std::move(attempt));
    }
    provider::apply_placement(session->assignment(), verdict);
    verdict.fell_back = verdict.node_count != 0 && wanted != "cpu" &&
                        std::find(verdict.active.begin(), verdict.active.end(), wanted) == verdict.active.end();
    check_after(plan, wanted, options);
    tell_precision(plan, info, options, variant, verdict);
    tell_options(plan, options, verdict);
  } catch (const Error&) {
    session.reset();
    remove_profiles(profile_prefix);
    throw;
  }
  const bool memory_limited_by_provider = limits_memory(plan);
  return {std::move(*session), std::move(plan.verdict),    variant == nullptr ? model : variant->file,
          profile_prefix,      memory_limited_by_provider, resident_before_bytes};
}

}  // namespace gpux::runtime
