#include "runtime/loading/load_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "isolation/load_facts.h"
#include "onnx/model_files.h"
#include "ort/core.h"
#include "provider/engine_cache.h"
#include "provider/library_version.h"
#include "provider/own_provider.h"
#include "provider/placement.h"
#include "provider/probe.h"
#include "provider/remedy.h"
#include "runtime/loading/fastest.h"
#include "runtime/loading/precision_variant.h"

namespace gpux::runtime {

const ProviderOptions* options_of(const LoadOptions& options, const std::string& id) {
  for (const ProviderOptions& entry : options.provider_options) {
    const provider::ProviderRow* row = provider::find_row(entry.provider);
    if (entry.provider == id || (row != nullptr && row->id == id)) return &entry;
  }
  return nullptr;
}

namespace {

using Outcome = ProviderAttempt::Outcome;
using provider::Request;

/// What the machine has to choose from.
struct Supply {
  const Machine& machine;
  std::vector<ort::CoreFile> cores;
  std::vector<provider::PluginFile> plugins;
  std::vector<std::string> plugin_names;
};

Supply find_supply(const Machine& machine, const LoadOptions& options) {
  Supply supply{machine, ort::find_cores(machine), provider::find_plugins(options.provider_libraries, machine), {}};
  supply.plugin_names = provider::own_names(supply.plugins);
  return supply;
}

provider::CommonOptions common_options(const LoadOptions& options) {
  return {.device = options.device,
          .memory_bytes = options.memory_bytes,
          .precision = options.precision,
          .cache_directory =
              options.cache_directory == provider::own_engine_folder ? std::string() : options.cache_directory.string(),
          .threads = options.intra_threads,
          .tf32_is_off = Machine::this_one().variable("NVIDIA_TF32_OVERRIDE") == "0"};
}

// What holds for every provider, also for those that gpux knows nothing of.
void check_harmless(const LoadOptions& options) {
  const auto check = [](const std::string& kind, const std::string& name, const std::string& value) {
    if (const std::string reason = provider::reason_against(name, value); !reason.empty()) {
      throw Error(ErrorCode::usage, fmt::format("{} '{}' is refused as '{}': it {}", kind, name, value, reason));
    }
  };
  for (const auto& [key, value] : options.session_config) check("session option", key, value);
  for (const ProviderOptions& entry : options.provider_options) {
    if (provider::find_row(entry.provider) != nullptr) continue;
    for (const auto& [name, value] : entry.values) {
      check(fmt::format("provider {}: option", entry.provider), name, value);
    }
  }
}

// Also those of providers that are not chosen are checked, so that a spelling mistake shows on every machine.
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

// `shapes`: that were derived for the provider.
provider::ResolvedOptions resolve(const ProviderReport& report, const LoadOptions& options,
                                  const std::string& shapes = {}) {
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
    resolved.used_device = resolved.device.value_or(0);
    const auto not_enforced = [&](const char* name) {
      resolved.unenforced.push_back(
          fmt::format("{}: what its {} would be is not known, and it is not enforced", report.id, name));
    };
    if (!options.precision.empty()) not_enforced("option for the precision");
    if (options.memory_bytes) not_enforced("limit of memory");
    if (!options.cache_directory.empty()) not_enforced("cache directory");
    return resolved;
  }
  provider::CommonOptions common = common_options(options);
  common.shapes = shapes;
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

// The core that the request needs first; without such a need one that is nobody's bridge.
std::vector<ort::CoreFile> in_order(std::vector<ort::CoreFile> cores, const std::filesystem::path& wanted) {
  std::stable_partition(cores.begin(), cores.end(), [&](const ort::CoreFile& core) {
    return wanted.empty() ? core.bridges.empty() : core.library == wanted;
  });
  return cores;
}

// What a graph is added that pools the vectors of tokens.
std::string text_of(const PooledOutput& pooled) {
  std::string text = fmt::format("+pooled {} by {}", pooled.token_vectors, pooled.attention_mask);
  for (const Pooling pooling : pooled.poolings) text += fmt::format(" {}", static_cast<int>(pooling));
  return text + (pooled.normalizes ? " normalized" : "");
}

/// What engines are compiled of, and where.
struct Subject {
  const std::filesystem::path& model;
  const ModelInfo& info;
  const Machine& machine;
};

// Of the file that the provider is given.
std::string digest_for(const ProviderReport& report, const LoadOptions& options, const Subject& subject,
                       const provider::ResolvedOptions& resolved) {
  const PrecisionVariant* variant =
      resolved.precision.empty() && report.id != "cpu" ? accelerator_variant_of(options, options.precision) : nullptr;
  if (variant != nullptr)
    return provider::model_digest(onnx::files_of(variant->file, ModelInspector::inspect(variant->file)));
  return provider::model_digest(onnx::files_of(subject.model, subject.info));
}

/// The shapes that a provider gets beside the user's own.
struct ShapeChoice {
  std::string profile;  ///< empty: none
  std::string from;     ///< "option": the user's own
  std::string unknown;  ///< why none could be derived; empty: there is nothing to derive
};

ShapeChoice choose_shapes(const ProviderReport& report, const LoadOptions& options, const ModelInfo& info) {
  const provider::ProviderRow* row = provider::find_row(report.id);
  if (row == nullptr || row->id != report.id || !provider::takes_shapes(*row, report.source == "plugin")) return {};
  const ProviderOptions* given = options_of(options, report.id);
  const bool is_given = given != nullptr && std::ranges::any_of(given->values, [](const auto& option) {
                          return provider::is_shape_option(option.first);
                        });
  if (is_given) return {.profile = {}, .from = "option", .unknown = {}};
  if (row->id == "openvino") return {};  // one compilation takes all shapes
  const provider::DerivedProfile derived =
      options.before.empty()
          ? provider::derive_shape_profile(info.signature, options.expected_sizes)
          : provider::DerivedProfile{.ranges = {}, .from = {}, .unknown = "another model makes the inputs of this one"};
  return {.profile = provider::profile_text(derived.ranges), .from = derived.from, .unknown = derived.unknown};
}

Message note_of(const std::string& id, const ShapeChoice& shapes) {
  const gpux::Subject option = setting_named("provider_option");
  if (!shapes.profile.empty()) {
    return format_message(
        "{0}: compiled for {1}, which is derived from {2}; other shapes are refused, and {3} {0}.shapes=… names them",
        id, shapes.profile, shapes.from, option);
  }
  if (shapes.unknown.empty()) return {};
  return format_message(
      "{0}: it chooses the shapes that it compiles for, and compiles again for larger ones, as {1}; {2} {0}.shapes=… "
      "names them",
      id, shapes.unknown, option);
}

// Where the user named no folder for engines, the provider is given one of gpux's cache.
void keep_engines(const ProviderReport& report, const LoadOptions& options, const Subject& subject,
                  const std::string& shapes, provider::ResolvedOptions& resolved, ProviderAttempt& attempt) {
  const provider::ProviderRow* row = provider::find_row(report.id);
  const bool is_asked_for = options.cache_directory == provider::own_engine_folder;
  if (row == nullptr || row->id != report.id || (!options.cache_directory.empty() && !is_asked_for)) return;
  if (is_asked_for && !provider::can_keep_engines(*row) && report.id != "cpu") {
    resolved.unenforced.push_back(
        fmt::format("{}: cache_directory has no counterpart there and is not enforced", report.id));
  }
  std::optional<Device> device;
  if (const auto used = resolved.used_device; used && *used < report.devices.size()) device = report.devices[*used];
  const ProviderOptions* given = options_of(options, report.id);
  const provider::OptionList none;
  const bool takes_one =
      provider::takes_engine_folder(*row, report.source == "plugin", given == nullptr ? none : given->values);
  if (!takes_one || (!is_asked_for && !provider::gains_by_engines(*row, device))) return;
  const auto cache = provider::EngineCache::of(subject.machine);
  if (!cache) return;
  std::string digest;
  try {
    digest = digest_for(report, options, subject, resolved);
  } catch (const Error&) {
    return;  // of a file that cannot be read: what loads the model says so
  }
  if (options.pooled_output) digest += text_of(*options.pooled_output);  // it may be compiled with that output
  if (options.cache_precision == CachePrecision::float16) digest += "keys and values in float16";
  if (options.cache_precision == CachePrecision::int8) digest += "keys and values in int8";
  const std::string version =
      provider::compiled_by(ort::Core::current()->version(), report.library, provider::loaded_compilers(*row));
  const provider::EngineFolder folder = cache->open(provider::engine_key(*row, digest, version, resolved, device));
  if (folder.path.empty()) return;
  LoadOptions with_folder = options;
  with_folder.cache_directory = folder.path;
  attempt.engine_folder = folder.path.string();
  attempt.has_kept_engine = folder.is_warm;
  provider::ResolvedOptions with_cache = resolve(report, with_folder, shapes);
  // What became of an option that nobody gave is not told.
  with_cache.notes = std::move(resolved.notes);
  if (!folder.reason.empty()) {
    with_cache.notes.push_back(fmt::format("{}: it compiles the model again: {}", report.id, folder.reason));
  }
  resolved = std::move(with_cache);
}

// Puts a chosen provider among the candidates, with its options.
void add_candidate(const ProviderReport& report, const LoadOptions& options, const Subject& subject,
                   ProviderAttempt& attempt, Plan& plan) {
  try {
    const ShapeChoice shapes = choose_shapes(report, options, subject.info);
    provider::ResolvedOptions resolved = resolve(report, options, shapes.profile);
    keep_engines(report, options, subject, shapes.profile, resolved, attempt);
    resolved.shapes_note = note_of(report.id, shapes);
    attempt.options = resolved.passed;
    attempt.shapes = provider::profile_text(resolved.shapes);
    attempt.shapes_from = attempt.shapes.empty() ? std::string() : shapes.from;
    if (!shapes.profile.empty()) plan.with_derived_shapes.push_back(report.id);
    if (const auto used = resolved.used_device; used && *used < report.devices.size() && report.id != "cpu") {
      attempt.device = report.devices[*used];
    }
    if (report.id != "cpu")
      plan.candidates.push_back({report.id, provider::to_append(report, resolved), report.library});
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

// Before a library is opened. What crashed or hung in a preflight is not available.
std::vector<ProviderReport> surveyed(const Request& request, const Supply& supply, const LoadOptions& options) {
  const std::vector<std::string> ids = provider::order_of(request, provider::this_system(), supply.plugin_names);
  std::vector<ProviderReport> reports = provider::survey(ids, supply.cores, supply.plugins, supply.machine);
  for (const auto& [id, reason] : facts_of(options).crashed_providers) {
    const auto report = std::ranges::find(reports, id, &ProviderReport::id);
    if (report == reports.end()) continue;
    report->available = report->accelerated = false;
    report->reason = reason;
    report->remedy =
        format_message("update the provider and its driver; {} off loads it nevertheless", setting_named("preflight"));
  }
  return reports;
}

// gpux's own provider in place of the CPU provider, where its outputs were compared.
void add_own_provider(const Supply& supply, const Subject& subject, const LoadOptions& options, Plan& plan) {
  if (!options.compared_provider || !provider::is_own(options.compared_provider->provider)) return;
  const ComparedProvider& compared = *options.compared_provider;
  std::vector<ProviderReport> reports =
      provider::survey(std::span(&compared.provider, 1), supply.cores, supply.plugins, supply.machine);
  ProviderReport& report = reports.front();
  provider::OwnProviderFacts facts{.unavailable = report.available ? std::string() : report.reason,
                                   .has_fast_kernels = has_avx2(supply.machine),
                                   .asked_precision = options.precision,
                                   .model_precision = precision_of(subject.info),
                                   .model_bytes = subject.info.total_bytes(),
                                   .memory_bytes = options.memory_bytes.value_or(usable_memory_bytes(supply.machine))};
  std::string reason = provider::reason_against(compared, facts);
  if (reason.empty()) {
    provider::confirm(reports, supply.plugins, supply.machine);
    if (!report.available) reason = report.reason;
  }
  ProviderAttempt attempt;
  attempt.id = compared.provider;
  attempt.ort_name = report.ort_name;
  attempt.source = report.source;
  attempt.devices = report.devices;
  attempt.outcome = reason.empty() ? Outcome::active : Outcome::not_needed;
  attempt.reason = std::move(reason);
  if (attempt.outcome == Outcome::active) {
    add_candidate(report, options, subject, attempt, plan);
    plan.own_provider = compared.provider;
  } else {
    attempt.remedy = format_message("ask for it by name: {} {}", setting_named("provider"), compared.provider);
  }
  // Before the CPU.
  plan.verdict.tried.insert(plan.verdict.tried.end() - 1, std::move(attempt));
}

Plan make_plan(const Request& request, const Supply& supply, const Subject& subject, const LoadOptions& options) {
  Plan plan{.request = request,
            .candidates = {},
            .verdict = {},
            .precision = options.precision,
            .options = {},
            .with_derived_shapes = {},
            .own_provider = {}};
  const provider::System system = provider::this_system();
  std::vector<ProviderReport> reports = surveyed(plan.request, supply, options);
  const ort::Core& core = ort::Core::open(in_order(supply.cores, provider::core_for(plan.request, reports, system)));
  provider::confirm_for(plan.request, system, reports, supply.plugins, supply.machine);

  Verdict& verdict = plan.verdict;
  verdict =
      provider::planned_verdict(plan.request, provider::select(plan.request, reports, system, core.library()), reports);
  verdict.requested = options.provider;
  verdict.requested_from = options.provider_from;
  verdict.runtime_version = core.version();
  verdict.runtime_path = core.library();
  for (ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome != Outcome::active) continue;
    add_candidate(*std::ranges::find(reports, attempt.id, &ProviderReport::id), options, subject, attempt, plan);
  }
  if (request.form == Request::Form::automatic && plan.candidates.empty()) {
    add_own_provider(supply, subject, options, plan);
  }
  return plan;
}

// The precisions that a provider could be told, where its options are in order.
std::vector<std::string> precisions_of(const ProviderReport& report, const LoadOptions& options) {
  LoadOptions without = options;
  without.precision.clear();
  try {
    return resolve(report, without).precisions;
  } catch (const Error&) {
    return {};  // its own attempt says why
  }
}

/// What was timed, and what came of it.
struct Fastest {
  std::vector<FastestCandidate> candidates;
  FastestChoice choice;

  /// Null where nothing could be measured.
  [[nodiscard]] const FastestCandidate* winner() const {
    const auto found = std::ranges::find(candidates, choice.candidate, &FastestCandidate::name);
    return found == candidates.end() ? nullptr : &*found;
  }
};

// "fastest": what can be used here by its libraries, each timed on this model.
Fastest find_fastest(std::span<const ProviderReport> reports, const Supply& supply, const std::filesystem::path& model,
                     const ModelInfo& info, const LoadOptions& options) {
  const std::filesystem::path program = find_program();
  // Without the program nothing but this process can measure, and that has one core.
  const ort::Core* core = program.empty() ? &ort::Core::open(in_order(supply.cores, {})) : ort::Core::current();
  Fastest fastest;
  for (const ProviderReport& report : reports) {
    const bool elsewhere = core != nullptr && !report.core.empty() && report.core != core->library();
    if (!report.available || elsewhere) continue;
    const PrecisionChoice choice{.precisions = precisions_of(report, options),
                                 .is_float32 = precision_of(info) == "fp32",
                                 .can_compare = !program.empty()};
    std::vector<FastestCandidate> candidates = candidates_on(report, choice, options);
    // The engine that is compiled while it is timed is the one that the load takes then.
    for (FastestCandidate& candidate : candidates) candidate.shapes = choose_shapes(report, options, info).profile;
    std::ranges::move(candidates, std::back_inserter(fastest.candidates));
  }
  const Measure measure = [&](const FastestCandidate& candidate) {
    if (program.empty()) return time_here(model, options, candidate);
    return held_to(options.min_cosine, time_in_child(program, model, options, candidate));
  };
  const std::string key = fastest_key(model, info, options, fastest.candidates, supply.machine);
  fastest.choice =
      choose_fastest(fastest.candidates, supply.machine.home_folder() / "fastest" / (key + ".json"), measure);
  return fastest;
}

std::string tell_times(const FastestChoice& choice) {
  std::vector<std::string> times;
  for (const Timing& timing : choice.timings) {
    if (timing.milliseconds) times.push_back(fmt::format("{} {:.3g} ms", timing.candidate, *timing.milliseconds));
  }
  return fmt::format("{} a run: {}", choice.remembered ? "measured before" : "measured", join(times));
}

// What becomes of providers themselves is told as their attempts, and not again.
void tell_refused(const Fastest& fastest, Verdict& verdict) {
  std::string own_failure;
  for (std::size_t i = 0; i < fastest.candidates.size(); ++i) {
    const Timing& timing = fastest.choice.timings[i];
    if (fastest.candidates[i].name == fastest.candidates[i].provider.id) {
      own_failure = timing.failure;
    } else if (timing.failure != own_failure && !timing.failure.empty()) {
      verdict.notes.emplace_back(fmt::format("not {}: {}", timing.candidate, timing.failure));
    }
  }
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
    attempt.source = report.source;
    attempt.devices = report.devices;
    attempt.reason = report.reason;
    attempt.remedy = report.remedy;
    if (report.available) {
      attempt.reason = fmt::format("not with this core: it needs '{}'", report.core.string());
      attempt.remedy = provider::ask_first(report.id);
    }
    for (const Timing& timing : choice.timings) {
      if (timing.candidate != report.id) continue;
      attempt.outcome = timing.milliseconds ? Outcome::not_needed : Outcome::failed;
      attempt.reason = timing.milliseconds ? fmt::format("slower on this model: {:.3g} ms a run", *timing.milliseconds)
                                           : timing.failure;
      attempt.remedy.clear();
    }
    verdict.tried.insert(verdict.tried.end() - 1, std::move(attempt));
  }
}

Plan plan_fastest(const Request& request, const Supply& supply, const std::filesystem::path& model,
                  const ModelInfo& info, const LoadOptions& given) {
  const std::vector<std::string> ids = provider::order_of(request, provider::this_system(), supply.plugin_names);
  const std::vector<ProviderReport> reports = provider::survey(ids, supply.cores, supply.plugins, supply.machine);
  const Fastest fastest = find_fastest(reports, supply, model, info, given);
  LoadOptions options = given;
  if (options.precision == any_precision) options.precision.clear();
  std::string list = "auto", times = "nothing could be timed on this model, so the choice is auto's";
  if (const FastestCandidate* winner = fastest.winner()) {
    list = winner->provider.id == "cpu" ? "cpu," : winner->provider.id + ",cpu";
    times = tell_times(fastest.choice);
    options.precision = winner->variant == nullptr ? winner->precision : winner->variant->precision;
  }
  Plan plan =
      make_plan(provider::parse_request(list, supply.plugin_names), supply, {model, info, supply.machine}, options);
  plan.verdict.notes.emplace_back(std::move(times));
  tell_refused(fastest, plan.verdict);
  add_slower(fastest.choice, reports, plan.verdict);
  return plan;
}

constexpr std::string_view name_ending = "executionprovider";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Whether the name stands in the text as a word, with ONNX Runtime's ending or without. Both in lower case.
bool has_word(std::string_view text, std::string_view name) {
  if (name.ends_with(name_ending)) name.remove_suffix(name_ending.size());
  if (name.empty()) return false;
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    std::string_view behind = text.substr(at + name.size());
    if (behind.starts_with(name_ending)) behind.remove_prefix(name_ending.size());
    const bool begins = at == 0 || !is_letter_or_digit(text[at - 1]);
    if (begins && (behind.empty() || !is_letter_or_digit(behind.front()))) return true;
  }
  return false;
}

std::string without(std::string text, const std::string& part) {
  if (part.empty()) return text;
  for (std::size_t at = 0; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

}  // namespace

std::vector<ProviderFile> provider_files(const LoadOptions& options, const Machine& machine) {
  const Supply supply = find_supply(machine, options);
  const Request request = provider::parse_request(options.provider, supply.plugin_names);
  const auto is_own = [](const provider::PluginFile& plugin) { return plugin.origin == "beside gpux"; };
  const auto has_bridges = [](const ort::CoreFile& core) { return !core.bridges.empty(); };
  // What is there on a machine without accelerators.
  const bool has_others =
      std::ranges::any_of(supply.cores, has_bridges) || !std::ranges::all_of(supply.plugins, is_own);
  if (!has_others || request.form == Request::Form::fastest) return {};
  const std::vector<ProviderReport> reports = surveyed(request, supply, options);
  const std::vector<ort::CoreFile> cores =
      in_order(supply.cores, provider::core_for(request, reports, provider::this_system()));
  const std::filesystem::path core = cores.empty() ? std::filesystem::path() : cores.front().library;
  std::vector<ProviderFile> files;
  for (const ProviderReport& report : reports) {
    const auto plugin = std::ranges::find(supply.plugins, report.library, &provider::PluginFile::library);
    const bool is_elsewhere = !report.core.empty() && report.core != core;
    if (!report.available || report.library.empty() || is_elsewhere) continue;
    if (plugin != supply.plugins.end() && is_own(*plugin)) continue;
    std::string version = fmt::format("{}\n{}\n{}\n", report.id, provider::library_version(report.library),
                                      provider::library_version(core));
    for (const Device& device : report.devices) version += fmt::format("driver {}\n", device.driver);
    files.push_back({report.id, std::move(version)});
  }
  return files;
}

bool forget_derived_shapes(Plan& plan, const std::string& reason) {
  const auto forget = [](std::vector<std::pair<std::string, std::string>>& options) {
    std::erase_if(options, [](const auto& option) { return provider::is_shape_option(option.first); });
  };
  const std::vector<std::string> ids = std::exchange(plan.with_derived_shapes, {});
  for (const std::string& id : ids) {
    for (Candidate& candidate : plan.candidates) {
      if (candidate.id == id) forget(candidate.append.options);
    }
    for (ProviderAttempt& attempt : plan.verdict.tried) {
      if (attempt.id != id) continue;
      forget(attempt.options);
      attempt.shapes.clear();
      attempt.shapes_from.clear();
    }
    if (const auto resolved = plan.options.find(id); resolved != plan.options.end()) {
      forget(resolved->second.passed);
      resolved->second.shapes.clear();
      resolved->second.shapes_note = format_message(
          "{}: it chooses the shapes that it compiles for, as there was no session with those that were "
          "derived: {}",
          id, reason);
    }
  }
  return !ids.empty();
}

std::optional<std::size_t> named_in(const Error& error, std::span<const Candidate> candidates,
                                    const std::filesystem::path& model) {
  if (const auto* append = dynamic_cast<const ort::AppendError*>(&error)) return append->provider();
  const std::string text = lower(without(error.message(), model.string()));
  std::optional<std::size_t> named;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!has_word(text, lower(candidates[i].id)) && !has_word(text, lower(candidates[i].append.name))) continue;
    if (named) return std::nullopt;
    named = i;
  }
  return named;
}

std::size_t culprit_by_trial(std::size_t count, const std::function<bool(std::size_t left_out)>& loads_without) {
  if (count == 1) return 0;
  for (std::size_t i = count; i-- > 0;) {
    if (loads_without(i)) return i;
  }
  return 0;
}

Plan make_plan(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options,
               const Machine& machine) {
  const Supply supply = find_supply(machine, options);
  const Request request = provider::parse_request(options.provider, supply.plugin_names);
  check_all_options(options, supply.plugin_names);
  check_harmless(options);
  if (request.form == Request::Form::fastest) return plan_fastest(request, supply, model, info, options);
  if (options.precision == any_precision) {
    throw Error(ErrorCode::usage, "precision any: only the provider fastest measures which is quickest");
  }
  return make_plan(request, supply, {model, info, machine}, options);
}

}  // namespace gpux::runtime
