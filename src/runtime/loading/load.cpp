#include "runtime/loading/load.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/changing_files.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/processors.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "isolation/load_facts.h"
#include "onnx/input_flow.h"
#include "onnx/model_files.h"
#include "onnx/model_functions.h"
#include "onnx/weight_references.h"
#include "ort/core.h"
#include "provider/engine_cache.h"
#include "provider/options.h"
#include "provider/own_provider.h"
#include "provider/placement.h"
#include "provider/probe.h"
#include "provider/select.h"
#include "runtime/loading/fastest.h"
#include "runtime/loading/load_identity.h"
#include "runtime/loading/load_plan.h"
#include "runtime/loading/precision_variant.h"
#include "runtime/loading/rewritten_model.h"
#include "runtime/loading/session_of_file.h"
#include "store/variant.h"

namespace gpux::runtime {
namespace {

using Outcome = ProviderAttempt::Outcome;
using provider::Request;

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
                fmt::format("strict: {} was requested ({}): {}{}", id, verdict.requested_from,
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

Error model_error(const Error& error, const std::filesystem::path& model) {
  switch (error.code()) {
    case ErrorCode::resource_exhausted:
    case ErrorCode::permission:
    case ErrorCode::storage:
      return error;
    default:
      return error.within(format_message("'{}' cannot be loaded", file_at(model))).as(ErrorCode::invalid_model);
  }
}

ort::SessionSettings settings_for(const LoadOptions& options, const std::filesystem::path& profile_prefix) {
  ort::SessionSettings settings;
  settings.intra_threads = options.intra_threads.value_or(usable_cores(Machine::this_one()));
  settings.inter_threads = options.inter_threads.value_or(1);
  settings.optimization = static_cast<ort::OptimizationLevel>(options.optimization);
  settings.profile_prefix = profile_prefix;
  settings.optimized_model = options.optimized_model;
  settings.config = options.session_config;
  settings.custom_operator_libraries = options.custom_operator_libraries;
  return settings;
}

bool has_cpu(const Verdict& verdict) {
  return std::any_of(verdict.tried.begin(), verdict.tried.end(),
                     [](const auto& attempt) { return attempt.id == "cpu"; });
}

// Where the placement is known and there is no node, all results were computed while the model was loaded.
bool has_work(const Verdict& verdict) {
  return !verdict.placement_known || verdict.node_count != 0;
}

bool is_active(const std::string& id, const Verdict& verdict) {
  return std::ranges::find(verdict.active, id) != verdict.active.end();
}

void check_after(const Plan& plan, const std::string& wanted, const LoadOptions& options) {
  if (options.strict == Strictness::off) return;
  const Verdict& verdict = plan.verdict;
  if (!is_active(wanted, verdict) && has_work(verdict)) fail_strictly(wanted, verdict);
  if (!verdict.placement_known) {
    const auto found = std::ranges::find(verdict.tried, wanted, &ProviderAttempt::id);
    // Nothing shows that it runs a node.
    if (found != verdict.tried.end() && wanted != "cpu" && !found->reason.empty()) fail_strictly(wanted, verdict);
  }
  if (options.strict != Strictness::nodes) return;
  // A single name stands for itself here; its chain and the CPU are what it must not fall back to.
  const bool listed = plan.request.form == Request::Form::list && plan.request.text == plan.verdict.requested;
  const std::vector<std::string> allowed = listed ? plan.request.ids : std::vector<std::string>{wanted};
  for (const std::string& id : verdict.active) {
    if (std::find(allowed.begin(), allowed.end(), id) != allowed.end()) continue;
    for (const ProviderAttempt& attempt : verdict.tried) {
      if (attempt.id != id) continue;
      if (!verdict.placement_known) {
        throw Error(ErrorCode::provider_unavailable,
                    fmt::format("strict=nodes: nodes run on {}, outside '{}'", id, verdict.requested));
      }
      throw Error(ErrorCode::provider_unavailable,
                  fmt::format("strict=nodes: {} of {} nodes run on {}, outside '{}'", attempt.node_count,
                              verdict.node_count, id, verdict.requested));
    }
  }
}

// What a provider computes a model of this precision in.
std::string computed_precision(const std::string& models_own, const std::string& id,
                               const provider::ResolvedOptions& options) {
  if (models_own == "fp32") return options.computes_float32_in;
  // These keep float32 as it is; what is not float32 they leave alone.
  const provider::ProviderRow* row = provider::find_row(id);
  const bool keeps_other = row == nullptr || !provider::has_option(*row, "precision");
  if (keeps_other && (options.precision == "fp32" || options.precision == "tf32")) return models_own;
  return options.precision.empty() ? models_own : options.precision;
}

// Names what runs, and says where that is not what was asked for.
void tell_precision(const Plan& plan, const ModelInfo& info, const LoadOptions& options, const PrecisionVariant* used,
                    Verdict& verdict) {
  const std::string front = verdict.active.empty() ? std::string() : verdict.active.front();
  const auto resolved = plan.options.find(front);
  if (used != nullptr) {
    verdict.precision = used->precision;
    verdict.notes.emplace_back(fmt::format("the model's {} variant is used, of a mean cosine of {:.4f} to it",
                                           used->precision, used->mean_cosine));
    return;
  }
  verdict.precision = precision_of(info);
  if (front != "cpu" && resolved != plan.options.end()) {
    verdict.precision = computed_precision(verdict.precision, front, resolved->second);
    std::string note = unmeasured_conversion(front, plan.precision, precision_of(info), verdict.precision);
    if (!note.empty()) verdict.notes.emplace_back(std::move(note));
  }
  if (front != "cpu" || plan.precision.empty() || verdict.precision == plan.precision) return;
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (variant.precision != plan.precision) continue;
    const char* why = variant.provider != "cpu" ? "it is for accelerators, and the CPU runs the model"
                      : can_run(variant)        ? "it is for the CPU alone"
                                         : "its weights of 8 bits need a processor with VNNI, which this one lacks";
    const std::string note = fmt::format("the model's {} variant is not used: {}", plan.precision, why);
    if (options.strict != Strictness::off) throw Error(ErrorCode::provider_unavailable, "strict: " + note);
    verdict.notes.emplace_back(note);
    return;
  }
}

// What was made of the options of those that hold nodes. What the CPU lacks counts only where it runs the model alone.
void tell_options(const Plan& plan, const LoadOptions& options, Verdict& verdict) {
  for (const auto& [id, resolved] : plan.options) {
    for (const std::string& note : resolved.notes) verdict.notes.emplace_back(note);
    const bool active = std::find(verdict.active.begin(), verdict.active.end(), id) != verdict.active.end();
    if (!active || (id == "cpu" && verdict.active.size() > 1)) continue;
    if (options.strict != Strictness::off && !resolved.unenforced.empty()) {
      throw Error(ErrorCode::provider_unavailable, "strict: " + join(resolved.unenforced, "; "));
    }
    for (const std::string& option : resolved.unenforced) verdict.notes.emplace_back(option);
    if (!resolved.shapes_note.empty()) verdict.notes.emplace_back(resolved.shapes_note);
  }
}

// Whether the provider that holds the most nodes keeps to the memory limit by itself.
bool limits_memory(const Plan& plan) {
  if (plan.verdict.active.empty()) return false;
  const auto resolved = plan.options.find(plan.verdict.active.front());
  return resolved != plan.options.end() && resolved->second.memory_limited;
}

// The variant that the plan's providers are to run; null: the model itself.
const PrecisionVariant* variant_for(const Plan& plan, const LoadOptions& options) {
  if (plan.candidates.empty()) return variant_of(options, plan.precision);
  const auto first = plan.options.find(plan.candidates.front().id);
  const bool converts_itself = first != plan.options.end() && !first->second.precision.empty();
  return converts_itself ? nullptr : accelerator_variant_of(options, plan.precision);
}

// Others than these may want the model as one file, or copy its weights to a device anyway.
bool can_map_weights(const Plan& plan) {
  return std::ranges::all_of(plan.candidates, [](const Candidate& candidate) { return candidate.id == "encoder"; });
}

ort::Session open_session(const std::filesystem::path& file, const ort::SessionSettings& settings,
                          const LoadOptions& options, const Plan& plan) {
  if (options.map_weights && settings.optimized_model.empty() && can_map_weights(plan)) {
    if (const auto model = onnx::with_weight_references(file)) {
      try {
        return ort::Session::from_memory(std::as_bytes(std::span(*model)), file.parent_path(), settings);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::resource_exhausted) throw;
        remove_profiles(settings.profile_prefix);
        log::info("the weights of {} are read instead of mapped: {}", file.string(), error.message());
      }
    }
  }
  return session_of_file(file, settings);
}

// The decoder provider takes the functions that a load writes at their names.
void require_no_own_functions(const ModelInfo& info) {
  for (const auto& [type, count] : info.operators) {
    const std::size_t end = type.find("::");
    if (end == std::string::npos) continue;
    const std::string domain = type.substr(0, end);
    if (!onnx::is_domain_of_functions(domain)) continue;
    throw Error(ErrorCode::invalid_model,
                format_message(
                    "the model has operators of the domain {}, which gpux writes into models in memory alone", domain));
  }
}

// Compiled code of a stranger, which a driver runs unseen, is for a worker process.
void refuse_compiled_code(const ModelInfo& info, const LoadOptions& options) {
  if (facts_of(options).pulled_from.empty() || !info.operators.contains("com.microsoft::EPContext")) return;
  throw Error(
      ErrorCode::invalid_model,
      format_message("'{}' has compiled code for a device (EPContext) and comes from {}: such code runs in a worker "
                     "process with a sandbox only, and this model runs in this process",
                     file_at(info.path), facts_of(options).pulled_from));
}

// Whether a session of the model can be made without one of the candidates.
bool loads_without(std::size_t left_out, const std::filesystem::path& model, const LoadOptions& options,
                   const Plan& plan) {
  ort::SessionSettings settings = settings_for(options, {});
  settings.optimized_model.clear();
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    if (i != left_out) settings.providers.push_back(plan.candidates[i].append);
  }
  try {
    (void)session_of_file(model, settings);
  } catch (const Error& error) {
    log::debug("no session without {} either: {}", plan.candidates[left_out].id, error.message());
    return false;
  }
  return true;
}

// Where the provider that failed was given an engine that was kept, it may be damaged, or one that this provider cannot
// read: it is removed, once, so that the provider compiles again.
bool discard_kept_engine(const Error& error, const std::filesystem::path& file, Plan& plan) {
  if (plan.candidates.empty() || error.code() == ErrorCode::resource_exhausted) return false;
  const std::optional<std::size_t> named = named_in(error, plan.candidates, file);
  if (!named && plan.candidates.size() > 1) return false;
  ProviderAttempt* attempt = attempt_of(plan.verdict, plan.candidates[named.value_or(0)].id);
  if (!attempt->has_kept_engine) return false;
  provider::discard_engines(attempt->engine_folder);
  attempt->has_kept_engine = false;
  plan.verdict.notes.emplace_back(fmt::format(
      "{}: the engine that was kept is removed, and the model compiled again: {}", attempt->id, error.message()));
  return true;
}

// Leaves out the provider that could not be part of a session of `file`. Throws where it is not a provider's fault.
void drop_culprit(const Error& error, const std::filesystem::path& file, const std::filesystem::path& model,
                  const std::string& wanted, const LoadOptions& options, Plan& plan) {
  const std::optional<std::size_t> named = named_in(error, plan.candidates, file);
  const std::size_t index = named ? *named : culprit_by_trial(plan.candidates.size(), [&](std::size_t left_out) {
    return loads_without(left_out, file, options, plan);
  });
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
    (void)session_of_file(model, settings_for(options, {}));
  } catch (const Error& without) {
    throw model_error(without, model);
  }
  fail_strictly(wanted, plan.verdict);
}

/// Tries one session after the other, each without what made the one before fail, until there is one.
class SessionSearch {
 public:
  // `wanted`: the provider that is insisted on. All are borrowed; the plan loses the providers that fail.
  SessionSearch(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options,
                const std::filesystem::path& profile_prefix, const std::string& wanted, Plan& plan)
      : model_(model),
        info_(info),
        options_(options),
        wanted_(wanted),
        plan_(plan),
        settings_(settings_for(options, profile_prefix)),
        optimization_(settings_.optimization),
        rewritten_(options, info.signature) {}

  ort::Session find() {
    for (;;) {
      choose();
      try {
        ort::Session session = open();
        if (!rewritten_.give_up_idle_caches(session, plan_)) return session;
        remove_profiles(settings_.profile_prefix);
      } catch (const Error& error) {
        remove_profiles(settings_.profile_prefix);
        go_on_without(error);
      }
    }
  }

  // Of the last session.
  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

  [[nodiscard]] const PrecisionVariant* variant() const noexcept { return variant_; }

  [[nodiscard]] const RewrittenModel& rewritten() const noexcept { return rewritten_; }

  [[nodiscard]] const ort::SessionSettings& settings() const noexcept { return settings_; }

 private:
  void choose() {
    settings_.providers.clear();
    for (const Candidate& candidate : plan_.candidates) settings_.providers.push_back(candidate.append);
    variant_ = variant_for(plan_, options_);
    graph_ = variant_ == nullptr && !graphs_fail_ ? graph_for(plan_, options_) : nullptr;
    settings_.optimization = graph_ != nullptr ? ort::OptimizationLevel::disabled : optimization_;
    file_ = variant_ != nullptr ? variant_->file : graph_ != nullptr ? graph_->file : model_;
  }

  ort::Session open() {
    // Its external data, too, has to be beside it.
    const ModelInfo info = file_ == model_ ? info_ : ModelInspector::inspect(file_);
    if (file_ != model_) {
      refuse_compiled_code(info, options_);
      require_no_own_functions(info);
    }
    if (!options_.map_weights) settings_.changing_files = onnx::files_of(file_, info);
    const std::optional<std::string> content = rewritten_.of(file_, info, plan_, settings_, graph_ != nullptr);
    ort::Session session =
        content ? session_of_content(*content, file_, settings_) : open_session(file_, settings_, options_, plan_);
    if (graph_ != nullptr) plan_.verdict.notes.emplace_back("the graph optimized when the package was built is used");
    return session;
  }

  // Of the error that is being handled. Throws where nothing is left that the next session could do without.
  void go_on_without(const Error& error) {
    if (error.code() == ErrorCode::usage) throw;  // a library of custom operators
    if (dynamic_cast<const FileChanged*>(&error) != nullptr) throw;
    if (graph_ != nullptr) {
      graphs_fail_ = true;
      plan_.verdict.notes.emplace_back("the graph optimized when the package was built is not used: " +
                                       error.message());
      return;
    }
    if (rewritten_.give_up(error.message())) return;
    if (discard_kept_engine(error, file_, plan_)) return;
    if (forget_derived_shapes(plan_, error.message())) return;
    if (plan_.candidates.empty()) throw model_error(error, model_);
    drop_culprit(error, file_, model_, wanted_, options_, plan_);
  }

  const std::filesystem::path& model_;
  const ModelInfo& info_;
  const LoadOptions& options_;
  const std::string& wanted_;
  Plan& plan_;
  ort::SessionSettings settings_;
  ort::OptimizationLevel optimization_;
  RewrittenModel rewritten_;
  std::filesystem::path file_;
  const PrecisionVariant* variant_ = nullptr;
  const OptimizedGraph* graph_ = nullptr;
  bool graphs_fail_ = false;
};

// Adds what the session reports. Errors where the provider that is insisted on does not run.
void complete_verdict(const ort::Session& session, const SessionSearch& search, const std::string& wanted,
                      const std::filesystem::path& weights_file, const ModelInfo& info, const LoadOptions& options,
                      Plan& plan) {
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
  const std::vector<ort::AssignedNode> nodes = session.assignment();
  provider::PlacementEvidence evidence{.uses_other_device = session.uses_other_device()};
  if (provider::may_leave_out_nodes(nodes, verdict)) {
    evidence.has_work = onnx::input_flow(weights_file).reaches_outputs;
  }
  provider::apply_placement(nodes, session.log(), verdict, evidence);
  verdict.fell_back = has_work(verdict) && wanted != "cpu" && !is_active(wanted, verdict);
  check_after(plan, wanted, options);
  tell_precision(plan, info, options, search.variant(), verdict);
  tell_options(plan, options, verdict);
  search.rewritten().tell(plan, verdict);
  if (session.uses_pinned_memory()) {
    verdict.notes.emplace_back("inputs and outputs are copied by way of pinned memory");
  }
}

}  // namespace

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

namespace {

// `taken`: the provider of gpux's own that auto took; empty: none.
Loaded load_by(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options,
               std::string& taken) {
  Plan plan = make_plan(model, info, options, Machine::this_one());
  check_before(plan, options);
  taken = plan.own_provider;
  const std::string wanted = insisted_on(plan);

  std::filesystem::path profile_prefix;
  if (!options.profile.empty()) profile_prefix = fmt::format("{}.{}.part", options.profile.string(), ::getpid());
  const std::uint64_t resident_before_bytes = resident_bytes();
  SessionSearch search(model, info, options, profile_prefix, wanted, plan);
  OptimizedGraph written;
  std::filesystem::path weights_file;
  std::optional<ort::Session> session;
  try {
    session = search.find();
    weights_file = search.variant() == nullptr ? model : search.variant()->file;
    complete_verdict(*session, search, wanted, weights_file, info, options, plan);
    written = written_graph(plan, options, search.settings());
  } catch (const Error&) {
    session.reset();
    remove_profiles(profile_prefix);
    throw;
  }
  const RewrittenModel& rewritten = search.rewritten();
  const bool memory_limited_by_provider = limits_memory(plan);
  std::string computed = computed_by(plan, options) + fmt::format("changes {}\n", rewritten.identity());
  isolation::LoadedIdentity identity = identity_of(plan, options, search.file());
  identity.emplace_back("what is changed in the model", rewritten.identity());
  return {.session = std::make_unique<ort::Session>(std::move(*session)),
          .verdict = std::move(plan.verdict),
          .weights_file = std::move(weights_file),
          .profile_prefix = profile_prefix,
          .memory_limited_by_provider = memory_limited_by_provider,
          .resident_before_bytes = resident_before_bytes,
          .computed_by = std::move(computed),
          .identity = std::move(identity),
          .stored_caches = rewritten.stored_caches(),
          .has_pooled_output = rewritten.is_pooled(),
          .written_graph = std::move(written)};
}

}  // namespace

Loaded load(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options) {
  refuse_compiled_code(info, options);
  require_no_own_functions(info);
  std::string taken;
  LoadOptions without = options;
  try {
    Loaded loaded = load_by(model, info, options, taken);
    const ProviderAttempt* attempt = taken.empty() ? nullptr : attempt_of(loaded.verdict, taken);
    if (attempt == nullptr || attempt->outcome == Outcome::failed) return loaded;
    without.compared_provider->difference = provider::missing_part(loaded.verdict, taken);
    if (without.compared_provider->difference.empty()) {
      loaded.verdict.notes.push_back(provider::note_of(*options.compared_provider));
      return loaded;
    }
    loaded.session.reset();
    remove_profiles(loaded.profile_prefix);
  } catch (const Error& error) {
    // Strict.
    if (taken.empty() || error.code() != ErrorCode::provider_unavailable) throw;
    without.compared_provider->difference = error.message();
  }
  return load_by(model, info, without, taken);
}

}  // namespace gpux::runtime
