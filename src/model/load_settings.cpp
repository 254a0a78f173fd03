#include "model/load_settings.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/log.h"
#include "base/own_program.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "isolation/load_facts.h"
#include "project/project_check.h"
#include "provider/engine_cache.h"
#include "provider/options.h"
#include "provider/probe.h"
#include "provider/request.h"
#include "provider/table.h"

namespace gpux {
namespace {

// Code that runs as the user: only what the user names.
void add_custom_operators(const Setting<std::filesystem::path>& library, LoadOptions& options) {
  std::error_code error;
  if (std::filesystem::is_regular_file(library.value, error)) {
    options.custom_operator_libraries.push_back(std::filesystem::absolute(library.value));
    return;
  }
  throw Error(ErrorCode::not_found, format_message("{}: there is no library of custom operators '{}'",
                                                   place_of(library.source), file_at(library.value)));
}

// The first to give an option counts.
void add_provider_option(LoadOptions& options, const std::string& provider, const std::string& name,
                         const std::string& value, const std::string& where) {
  for (ProviderOptions& entry : options.provider_options) {
    if (entry.provider != provider) continue;
    for (const auto& [known, old] : entry.values) {
      if (known == name) return;
    }
    entry.values.emplace_back(name, value);
    return;
  }
  options.provider_options.push_back({provider, {{name, value}}, where});
}

// An option without a provider belongs to the one that is asked for.
void add_provider_options(const std::vector<ProviderOptions>& list, LoadOptions& options) {
  for (const ProviderOptions& given : list) {
    for (const auto& [name, value] : given.values) {
      std::string provider = given.provider;
      if (provider.empty()) {
        provider = split(options.provider, ',').front();
        const std::string word = lower(provider);
        if (word == "auto" || word == "fastest" || word == "gpu" || word == "npu") {
          throw Error(ErrorCode::usage, fmt::format("{} {}={}: say for which provider, as in cuda.{}={}", given.where,
                                                    name, value, name, value));
        }
      }
      add_provider_option(options, provider, name, value, given.where);
    }
  }
}

std::string first_provider(const std::string& request) {
  const provider::ProviderRow* row = provider::find_row(split(request, ',').front());
  return row == nullptr ? std::string() : std::string(row->id);
}

// Of the package, where the provider that it was built for is requested.
void add_packaged_shapes(const LocatedModel& model, LoadOptions& options) {
  if (!model.stored || model.stored->package.shapes.empty()) return;
  const std::string provider = first_provider(options.provider);
  if (provider.empty() || provider != first_provider(model.stored->package.provider)) return;
  const provider::ProviderRow* row = provider::find_row(provider);
  // A plugin of OpenVINO refuses them; its bridge is what packages are built with.
  if (!provider::takes_shapes(*row, false)) return;
  const ProviderOptions* given = nullptr;
  for (const ProviderOptions& entry : options.provider_options) {
    if (first_provider(entry.provider) == provider) given = &entry;
  }
  const bool is_said = given != nullptr && std::ranges::any_of(given->values, [](const auto& option) {
                         return provider::is_shape_option(option.first);
                       });
  if (!is_said) add_provider_option(options, provider, "shapes", model.stored->package.shapes, "package");
}

std::vector<std::string> plugin_names(std::span<const ProviderLibrary> given) {
  return provider::own_names(provider::find_plugins(given, Machine::this_one()));
}

// --shapes belongs to the provider that is asked for.
void add_shapes(const MaybeSetting<std::string>& shapes, LoadOptions& options) {
  if (!shapes) return;
  (void)provider::parse_shape_profile(shapes->value);
  if (!compiles_ahead(options.provider)) {
    throw Error(
        ErrorCode::usage,
        format_message(
            "{}: {} compiles nothing ahead of time; accepted: {} tensorrt, tensorrt-rtx, migraphx, openvino, coreml",
            setting_named("shapes"), first_provider(options.provider), setting_named("provider")));
  }
  const std::string provider = first_provider(options.provider);
  if (provider::takes_shapes(*provider::find_row(provider), false)) {
    add_provider_option(options, provider, "shapes", shapes->value, place_of(shapes->source));
  }
}

// The exit code of an unknown name depends on its source: 2 for a flag or variable, 3 for gpux.yml.
void check_provider(const LoadOptions& options, const Source& source) {
  try {
    (void)provider::parse_request(options.provider, plugin_names(options.provider_libraries));
  } catch (const Error& error) {
    if (source.place.empty()) throw error.within(options.provider_from);
    throw error.within(source.place).as(ErrorCode::invalid_config);
  }
}

// Not another one that --config names, which is the user's own.
bool came_with_the_package(const ProjectFile& project, const LocatedModel& model) {
  return model.stored && project.file.parent_path() / model.stored->package.model_file == model.onnx_file;
}

isolation::IsolationRequest isolation_request(const LoadRequest& request, const LocatedModel& model) {
  if (request.isolation) return {.isolation = request.isolation->value, .from = place_of(request.isolation->source)};
  if (!model.project || !model.project->runtime.isolation) return {};
  return {.isolation = model.project->runtime.isolation,
          .from = model.project->where("runtime.isolation"),
          .is_from_package = came_with_the_package(*model.project, model)};
}

std::optional<Sandbox> requested_sandbox(const LoadRequest& request) {
  return request.sandbox ? std::optional(request.sandbox->value) : std::nullopt;
}

void decide_isolation(LoadSettings& settings) {
  auto decision = isolation::decide_isolation(settings.isolation_request, settings.isolation_facts);
  settings.options.isolation = decision.isolation;
  change_facts(settings.options, [&](LoadFacts& facts) { facts.isolation_reason = std::move(decision.reason); });
  const bool is_strangers = settings.isolation_facts.is_pulled_package && decision.isolation == Isolation::process;
  settings.options.sandbox = requested_sandbox(settings.request).value_or(is_strangers ? Sandbox::on : Sandbox::off);
}

// The one of a package is none: else the package decided where it runs.
bool is_profile_of_the_user(const LoadRequest& request, const LoadOptions& options) {
  return request.profile && (facts_of(options).pulled_from.empty() || is_asked_now(request.profile->source));
}

void set_isolation(const LocatedModel& model, LoadSettings& settings) {
  const LoadRequest& request = settings.request;
  if (request.worker_use == WorkerUse::none) return;
  settings.options.preflight = !request.preflight || request.preflight->value;
  if (request.preflight_timeout) {
    if (!settings.options.preflight) {
      throw Error(ErrorCode::usage, format_message("{} is about the preflight, and {} is off",
                                                   setting_named("preflight_timeout"), setting_named("preflight")));
    }
    settings.options.preflight_timeout = request.preflight_timeout->value;
  }
  settings.options.restart_worker = request.worker_use == WorkerUse::restarted;
  settings.isolation_request = isolation_request(request, model);
  if (requested_sandbox(request).value_or(Sandbox::off) != Sandbox::off && !request.isolation) {
    settings.isolation_request = {.isolation = Isolation::process, .from = request.sandbox->source.name};
  }
  isolation::IsolationFacts& facts = settings.isolation_facts;
  const LoadOptions& options = settings.options;
  if (!options.provider_libraries.empty()) facts.plugin_library = options.provider_libraries.front().name;
  if (!options.custom_operator_libraries.empty()) {
    facts.operator_library = options.custom_operator_libraries.front().filename().string();
  }
  facts.is_pulled_package = !facts_of(options).pulled_from.empty();
  if (is_profile_of_the_user(request, options)) facts.obstacle = "a profile is written";
  decide_isolation(settings);
}

// What a package was built for.
LoadRequest request_of_package(const LocatedModel& model) {
  LoadRequest request;
  const Source package{.kind = Source::Kind::package, .name = "package", .place = {}};
  if (!model.provider.empty()) request.provider = {model.provider, package};
  if (model.stored && !model.stored->package.precision.empty()) {
    request.precision = {model.stored->package.precision, package};
  }
  return request;
}

// What is said of the model, the caller's words first.
LoadRequest whole_request(const LoadRequest& asked, const LocatedModel& model) {
  LoadRequest request = merge(merge(asked, request_of_variables()), request_of_package(model));
  if (!model.project) return request;
  if (const Message line = ignored_line(*model.project, model.name); !line.empty()) log::warning(line);
  if (came_with_the_package(*model.project, model)) require_portable_options(*model.project);
  return merge(std::move(request), request_of(*model.project));
}

template <typename Value>
void set(std::optional<Value>& option, const MaybeSetting<Value>& setting) {
  if (setting) option = setting->value;
}

template <typename Value>
void set(Value& option, const MaybeSetting<Value>& setting) {
  if (setting) option = setting->value;
}

LoadOptions options_of(const LoadRequest& request) {
  LoadOptions options;
  set(options.provider, request.provider);
  if (request.provider) options.provider_from = request.provider->source.name;
  set(options.strict, request.strict);
  set(options.device, request.device);
  set(options.memory_bytes, request.memory_bytes);
  set(options.precision, request.precision);
  set(options.cache_directory, request.cache_directory);
  set(options.intra_threads, request.intra_threads);
  set(options.inter_threads, request.inter_threads);
  set(options.optimization, request.optimization);
  set(options.profile, request.profile);
  set(options.batch_axis, request.batch_axis);
  if (request.batch_axis) options.batch_axis_from = request.batch_axis->source.name;
  options.provider_libraries = request.provider_libraries;
  options.session_config = request.session_config;
  if (request.min_cosine) {
    options.min_cosine = request.min_cosine->value;
    if (options.precision != "any") {
      throw Error(ErrorCode::usage, format_message("{} limits the precisions of {} any: give that, too",
                                                   request.min_cosine->source.name, setting_named("precision")));
    }
  }
  return options;
}

}  // namespace

void note_isolation_obstacle(LoadSettings& settings, const std::string& obstacle) {
  settings.isolation_facts.obstacle = obstacle;
  decide_isolation(settings);
}

void require_portable_options(const ProjectFile& project) {
  for (const DeclaredProvider& declared : project.runtime.providers) {
    for (const auto& [name, value] : declared.options) {
      if (!provider::names_a_place(declared.name, name, value)) continue;
      throw Error(
          ErrorCode::invalid_config,
          format_message(
              "{}: a package cannot name a place of this machine, as {}'s option '{}' does; use {}, or {} {}.{}=…",
              project.where(declared.position), declared.name, name, setting_named("cache_dir"),
              setting_named("provider_option"), declared.name, name));
    }
  }
}

bool compiles_ahead(const std::string& request) {
  const std::string provider = first_provider(request);
  if (provider.empty()) {
    throw Error(
        ErrorCode::usage,
        format_message(
            "{}: '{}' names no provider that compiles; accepted: {} tensorrt, tensorrt-rtx, migraphx, openvino, coreml",
            setting_named("shapes"), request, setting_named("provider")));
  }
  return provider::can_keep_engines(*provider::find_row(provider));
}

std::optional<std::chrono::milliseconds> LoadSettings::timeout() const {
  return request.timeout ? std::optional(request.timeout->value) : std::nullopt;
}

LoadSettings resolve_load(const LoadRequest& asked, const LocatedModel& model) {
  LoadSettings settings;
  settings.request = whole_request(asked, model);
  const LoadRequest& request = settings.request;
  settings.options = options_of(request);
  LoadOptions& options = settings.options;
  change_facts(options, [&](LoadFacts& facts) { facts.pulled_from = model.pulled_from; });
  if (model.project) {
    options.before = model.project->before;
    options.after = model.project->after;
    settings.batch_limit = static_cast<std::uint64_t>(model.project->runtime.batch_size.value_or(0));
  }
  for (const auto& library : request.custom_operator_libraries) add_custom_operators(library, options);
  add_provider_options(asked.provider_options, options);
  add_shapes(request.shapes, options);
  add_provider_options(request.provider_options, options);
  add_packaged_shapes(model, options);
  check_provider(options, request.provider ? request.provider->source : Source());
  set_isolation(model, settings);
  return settings;
}

LoadSettings resolve_check(const LoadRequest& request, const LocatedModel& model) {
  if (model.pulled_from.empty()) return resolve_load(request, model);
  LoadRequest in_worker = request;
  if (!worker_program().empty()) in_worker.worker_use = WorkerUse::once;
  LoadSettings settings = resolve_load(in_worker, model);
  LoadOptions& options = settings.options;
  change_facts(options, [&](LoadFacts& facts) { facts.worker_name = model.name; });
  options.profile.clear();
  options.strict = Strictness::off;
  if (lower(options.provider) == "fastest") options.provider = "auto";
  if (in_worker.worker_use == WorkerUse::once) note_isolation_obstacle(settings, {});
  return settings;
}

}  // namespace gpux
