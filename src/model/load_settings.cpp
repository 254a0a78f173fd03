#include "model/load_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include <fmt/format.h>

#include "base/home.h"
#include "base/log.h"
#include "base/memory_size.h"
#include "base/own_program.h"
#include "base/spelling.h"
#include "embedding/level.h"
#include "gpux/error.h"
#include "project/project_check.h"
#include "provider/engine_cache.h"
#include "provider/options.h"
#include "provider/probe.h"
#include "provider/request.h"
#include "provider/table.h"

namespace gpux {
namespace {

/// A setting's text and who said it.
struct Said {
  std::string text;
  std::string by;

  explicit operator bool() const { return !by.empty(); }
};

Said flag_or_variable(const std::string& flag_value, const char* flag, const char* variable) {
  if (!flag_value.empty()) return {flag_value, flag};
  if (variable != nullptr) {
    if (std::string value = environment_variable(variable); !value.empty()) return {value, variable};
  }
  return {};
}

[[noreturn]] void refuse(const Said& said, const char* accepted) {
  throw Error(ErrorCode::usage, fmt::format("{} is '{}'; accepted: {}", said.by, said.text, accepted));
}

std::optional<unsigned> number(const Said& said) {
  if (!said) return std::nullopt;
  unsigned value = 0;
  const char* end = said.text.data() + said.text.size();
  const auto [stopped, error] = std::from_chars(said.text.data(), end, value);
  if (error != std::errc() || stopped != end) refuse(said, "a number");
  return value;
}

std::optional<unsigned> threads(const Said& said) {
  const auto value = number(said);
  if (value && (*value == 0 || *value > 1024)) refuse(said, "1 to 1024");
  return value;
}

Strictness strictness(const Said& said) {
  const std::string word = lower(said.text);
  if (word == "true" || word == "1" || word == "yes" || word == "provider") return Strictness::provider;
  if (word == "false" || word == "0" || word == "no" || word == "off") return Strictness::off;
  if (word == "nodes") return Strictness::nodes;
  refuse(said, "true, nodes, false");
}

std::uint64_t memory_size(const Said& said) {
  const auto bytes = parse_memory_size(said.text);
  if (!bytes) refuse(said, "a number of bytes, or a size like 2GB");
  return *bytes;
}

std::string precision(const Said& said) {
  const std::string word = lower(said.text);
  static constexpr std::array<std::string_view, 7> known{"fp32", "tf32", "fp16", "bf16", "int8", "int8-bf16", "any"};
  if (std::ranges::find(known, word) == known.end()) refuse(said, "fp32, tf32, fp16, bf16, int8, int8-bf16, any");
  return word;
}

Sandbox sandbox(const Said& said) {
  const std::string word = lower(said.text);
  if (word == "off") return Sandbox::off;
  if (word == "on") return Sandbox::on;
  if (word == "strict") return Sandbox::strict;
  refuse(said, "on, off, strict");
}

// Code that runs as the user: only what the user names. `place`: of a gpux.yml; empty: the flag.
void add_custom_operators(const std::filesystem::path& library, const std::string& place, LoadOptions& options) {
  std::error_code error;
  if (std::filesystem::is_regular_file(library, error)) {
    options.custom_operator_libraries.push_back(std::filesystem::absolute(library));
    return;
  }
  throw Error(ErrorCode::not_found, fmt::format("{}: there is no library of custom operators '{}'",
                                                place.empty() ? "--custom-ops" : place, library.string()));
}

std::chrono::milliseconds time_limit(const Said& said) {
  const auto limit = duration_from(said.text);
  if (!limit) refuse(said, "a time like 5s or 500ms");
  return *limit;
}

Optimization optimization(const Said& said) {
  const auto level = optimization_from(lower(said.text));
  if (!level) refuse(said, "disabled, basic, extended, layout, all");
  return *level;
}

std::pair<std::string, std::string> key_and_value(const std::string& text, const char* flag, const char* form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse({text, flag}, form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void add_provider_option(LoadOptions& options, const std::string& provider, const std::string& name,
                         const std::string& value, const std::string& where) {
  for (ProviderOptions& entry : options.provider_options) {
    if (entry.provider != provider) continue;
    // Flags are read before gpux.yml, and the first to speak counts.
    for (const auto& [known, old] : entry.values) {
      if (known == name) return;
    }
    entry.values.emplace_back(name, value);
    return;
  }
  options.provider_options.push_back({provider, {{name, value}}, where});
}

// --provider-option KEY=VALUE belongs to the provider that is asked for, PROVIDER.KEY=VALUE to that one.
void read_provider_options(const LoadFlags& flags, LoadOptions& options) {
  for (const std::string& text : flags.provider_options) {
    auto [key, value] = key_and_value(text, "--provider-option", "[PROVIDER.]KEY=VALUE");
    std::string provider;
    if (const std::size_t dot = key.find('.'); dot != std::string::npos) {
      provider = key.substr(0, dot);
      key = key.substr(dot + 1);
    } else {
      provider = split(options.provider, ',').front();
      const std::string word = lower(provider);
      if (word == "auto" || word == "fastest" || word == "gpu" || word == "npu") {
        throw Error(ErrorCode::usage,
                    fmt::format("--provider-option {}: say for which provider, as in cuda.{}={}", text, key, value));
      }
    }
    add_provider_option(options, provider, key, value, "--provider-option");
  }
}

std::string first_provider(const std::string& request) {
  const provider::ProviderRow* row = provider::find_row(split(request, ',').front());
  return row == nullptr ? std::string() : std::string(row->id);
}

// Of the package, where the provider that it was built for is requested.
void read_packaged_shapes(const LocatedModel& model, LoadOptions& options) {
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
void read_shapes(const LoadFlags& flags, LoadOptions& options) {
  if (flags.shapes.empty()) return;
  (void)provider::parse_shape_profile(flags.shapes);
  if (!compiles_ahead(options.provider)) {
    throw Error(ErrorCode::usage,
                fmt::format("--shapes: {} compiles nothing ahead of time; accepted: --provider tensorrt, tensorrt-rtx, "
                            "migraphx, openvino, coreml",
                            first_provider(options.provider)));
  }
  const std::string provider = first_provider(options.provider);
  if (provider::takes_shapes(*provider::find_row(provider), false)) {
    add_provider_option(options, provider, "shapes", flags.shapes, "--shapes");
  }
}

// The exit code of an unknown name depends on its source: 2 for a flag or variable, 3 for gpux.yml.
void check_request(const LoadOptions& options, const std::string& place) {
  try {
    (void)provider::parse_request(options.provider, plugin_names(options.provider_libraries));
  } catch (const Error& error) {
    if (place.empty()) throw error.within(options.provider_from);
    throw Error(ErrorCode::invalid_config, place + ": " + error.message());
  }
}

void read_project(const ProjectFile& project, LoadOptions& options) {
  for (const DeclaredProvider& declared : project.runtime.providers) {
    for (const auto& [name, value] : declared.options) {
      add_provider_option(options, declared.name, name, value, project.where(declared.position));
    }
    if (!declared.library.empty()) options.provider_libraries.push_back({declared.name, declared.library});
  }
  for (const DeclaredLibrary& library : project.runtime.provider_libraries) {
    options.provider_libraries.push_back({library.name, library.path});
  }
  for (const DeclaredLibrary& library : project.runtime.custom_operators) {
    add_custom_operators(library.path, project.where(library.position), options);
  }
  if (!options.device) options.device = project.runtime.device;
  if (!options.memory_bytes) options.memory_bytes = project.runtime.memory_limit_bytes;
  if (!options.intra_threads) options.intra_threads = project.runtime.intra_threads;
  if (!options.inter_threads) options.inter_threads = project.runtime.inter_threads;
  if (options.profile.empty() && project.runtime.profile) options.profile = *project.runtime.profile;
}

/// A variable and what its value has to be; null: any text will do, or main() looks at it.
struct Variable {
  const char* name;
  void (*check)(const Said&);
};

std::span<const Variable> variables() {
  static const std::array<Variable, 21> all{{
      {"GPUX_HOME", nullptr},
      {"GPUX_OFFLINE", nullptr},
      {"GPUX_ONNXRUNTIME", nullptr},
      {"GPUX_PYTHON_PACKAGES", nullptr},
      {"GPUX_PROVIDER", [](const Said& said) { (void)provider::parse_request(said.text, plugin_names({})); }},
      {"GPUX_STRICT", [](const Said& said) { (void)strictness(said); }},
      {"GPUX_DEVICE", [](const Said& said) { (void)number(said); }},
      {"GPUX_MEMORY", [](const Said& said) { (void)memory_size(said); }},
      {"GPUX_PRECISION", [](const Said& said) { (void)precision(said); }},
      {"GPUX_CACHE_DIR", nullptr},
      {"GPUX_ENGINE_CACHE_SIZE", [](const Said& said) { (void)memory_size(said); }},
      {"GPUX_THREADS", [](const Said& said) { (void)threads(said); }},
      {"GPUX_INTER_THREADS", [](const Said& said) { (void)threads(said); }},
      {"GPUX_OPTIMIZATION", [](const Said& said) { (void)optimization(said); }},
      {"GPUX_PROFILE", nullptr},
      {"GPUX_TIMEOUT", [](const Said& said) { (void)time_limit(said); }},
      {"GPUX_API_KEY", nullptr},
      {"GPUX_VECTOR_LEVEL",
       [](const Said& said) {
         if (lower(said.text) == "none" || embedding::level_from(said.text) != nullptr) return;
         refuse(said, "none, low, medium (med), high");
       }},
      {"GPUX_MODEL_DIR", nullptr},
      {"GPUX_LOG_LEVEL", nullptr},
      {"GPUX_LOG_FORMAT", nullptr},
  }};
  return all;
}

// Not another one that --config names, which is the user's own.
bool came_with_the_package(const ProjectFile& project, const LocatedModel& model) {
  return model.stored && project.file.parent_path() / model.stored->package.model_file == model.onnx_file;
}

runtime::isolation::IsolationRequest isolation_request(const LoadFlags& flags, const LocatedModel& model) {
  if (!flags.isolation.empty()) {
    if (flags.isolation == "thread") return {.isolation = Isolation::thread, .from = flags.isolation_from};
    if (flags.isolation == "process") return {.isolation = Isolation::process, .from = flags.isolation_from};
    refuse({flags.isolation, flags.isolation_from}, "thread, process");
  }
  if (!model.project || !model.project->runtime.isolation) return {};
  return {.isolation = model.project->runtime.isolation,
          .from = model.project->where("runtime.isolation"),
          .is_from_package = came_with_the_package(*model.project, model)};
}

void decide_isolation(LoadSettings& settings) {
  auto decision = runtime::isolation::decide_isolation(settings.isolation_request, settings.isolation_facts);
  settings.options.isolation = decision.isolation;
  settings.options.isolation_reason = std::move(decision.reason);
  const bool is_strangers = settings.isolation_facts.is_pulled_package && decision.isolation == Isolation::process;
  settings.options.sandbox = settings.sandbox_request.value_or(is_strangers ? Sandbox::on : Sandbox::off);
}

// The one of a package is none: else the package decided where it runs.
bool is_profile_of_the_user(const LoadFlags& flags, const LoadOptions& options) {
  if (options.profile.empty()) return false;
  return options.pulled_from.empty() || flag_or_variable(flags.profile, "--profile", "GPUX_PROFILE");
}

void set_isolation(const LoadFlags& flags, const LocatedModel& model, LoadSettings& settings) {
  if (flags.worker_use == WorkerUse::none) return;
  settings.options.preflight = flags.preflight != "off";
  if (!flags.preflight_timeout.empty()) {
    if (!settings.options.preflight) {
      throw Error(ErrorCode::usage, "--preflight-timeout is about the preflight, and --preflight is off");
    }
    settings.options.preflight_timeout = time_limit({flags.preflight_timeout, "--preflight-timeout"});
  }
  settings.options.restart_worker = flags.worker_use == WorkerUse::restarted;
  settings.isolation_request = isolation_request(flags, model);
  if (!flags.sandbox.empty()) settings.sandbox_request = sandbox({flags.sandbox, "--sandbox"});
  if (settings.sandbox_request.value_or(Sandbox::off) != Sandbox::off && flags.isolation.empty()) {
    settings.isolation_request = {.isolation = Isolation::process, .from = "--sandbox"};
  }
  runtime::isolation::IsolationFacts& facts = settings.isolation_facts;
  const LoadOptions& options = settings.options;
  if (!options.provider_libraries.empty()) facts.plugin_library = options.provider_libraries.front().name;
  if (!options.custom_operator_libraries.empty()) {
    facts.operator_library = options.custom_operator_libraries.front().filename().string();
  }
  facts.is_pulled_package = !options.pulled_from.empty();
  if (is_profile_of_the_user(flags, options)) facts.obstacle = "a profile is written";
  decide_isolation(settings);
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
      throw Error(ErrorCode::invalid_config,
                  fmt::format("{}: a package cannot name a place of this machine, as {}'s option '{}' does; use "
                              "--cache-dir, or --provider-option {}.{}=…",
                              project.where(declared.position), declared.name, name, declared.name, name));
    }
  }
}

bool compiles_ahead(const std::string& request) {
  const std::string provider = first_provider(request);
  if (provider.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("--shapes: '{}' names no provider that compiles; accepted: --provider tensorrt, "
                            "tensorrt-rtx, migraphx, openvino, coreml",
                            request));
  }
  return provider::can_keep_engines(*provider::find_row(provider));
}

double min_cosine_from(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || !(value > 0 && value <= 1)) {
    refuse({text, "--min-cosine"}, "more than 0, at most 1");
  }
  return value;
}

std::vector<ProviderLibrary> read_provider_libraries(const std::vector<std::string>& texts) {
  std::vector<ProviderLibrary> libraries;
  for (const std::string& text : texts) {
    const auto [name, path] = key_and_value(text, "--provider-library", "NAME=PATH");
    libraries.push_back({name, path});
  }
  return libraries;
}

std::vector<std::string> variable_names() {
  std::vector<std::string> names;
  for (const Variable& variable : variables()) names.emplace_back(variable.name);
  return names;
}

std::string variable_problem(const std::string& name) {
  const std::string value = environment_variable(name.c_str());
  for (const Variable& variable : variables()) {
    if (variable.name != name || variable.check == nullptr || value.empty()) continue;
    try {
      variable.check({value, name});
    } catch (const Error& error) {
      return error.message();
    }
  }
  return {};
}

void set_batch_axis(const std::string& flag, LoadOptions& options) {
  if (flag.empty()) return;
  options.batch_axis = flag == "0" ? BatchAxis::zero : BatchAxis::none;
  options.batch_axis_from = "--batch-axis";
}

LoadSettings resolve_load(const LoadFlags& flags, const std::string& timeout, const LocatedModel& model) {
  LoadSettings settings;
  LoadOptions& options = settings.options;
  options.provider_libraries = read_provider_libraries(flags.provider_libraries);
  options.device = number(flag_or_variable(flags.device, "--device", "GPUX_DEVICE"));
  options.intra_threads = threads(flag_or_variable(flags.intra_threads, "--threads", "GPUX_THREADS"));
  options.inter_threads = threads(flag_or_variable(flags.inter_threads, "--inter-threads", "GPUX_INTER_THREADS"));
  options.profile = flag_or_variable(flags.profile, "--profile", "GPUX_PROFILE").text;
  options.cache_directory = flag_or_variable(flags.cache_directory, "--cache-dir", "GPUX_CACHE_DIR").text;
  if (const Said memory = flag_or_variable(flags.memory, "--memory", "GPUX_MEMORY")) {
    options.memory_bytes = memory_size(memory);
  }
  if (const Said said = flag_or_variable(flags.precision, "--precision", "GPUX_PRECISION")) {
    options.precision = precision(said);
    settings.precision_from = said.by;
  }
  for (const std::string& text : flags.session_options) {
    options.session_config.push_back(key_and_value(text, "--session-option", "KEY=VALUE"));
  }
  for (const std::string& library : flags.custom_operators) add_custom_operators(library, {}, options);
  options.pulled_from = model.pulled_from;
  const ProjectFile* project = model.project ? &*model.project : nullptr;
  if (project != nullptr) {
    if (const std::string line = ignored_line(*project, model.name); !line.empty()) log::warning("{}", line);
  }
  const RuntimeSettings declared = project == nullptr ? RuntimeSettings{} : project->runtime;
  if (project != nullptr) {
    options.before = project->before;
    options.after = project->after;
    options.batch_axis = project->serving.batch_axis;
    options.batch_axis_from = "serving.batch_axis";
  }
  if (options.precision.empty() && model.stored) options.precision = model.stored->package.precision;
  if (options.precision.empty()) options.precision = declared.precision;
  if (!flags.min_cosine.empty()) {
    options.min_cosine = min_cosine_from(flags.min_cosine);
    if (options.precision != "any") {
      throw Error(ErrorCode::usage, "--min-cosine limits the precisions of --precision any: give that, too");
    }
  }

  std::string place;
  if (const Said provider = flag_or_variable(flags.provider, flags.provider_from.c_str(), "GPUX_PROVIDER")) {
    options.provider = provider.text;
    options.provider_from = provider.by;
  } else if (!model.provider.empty()) {
    // Said when the package was built, so after its gpux.yml was written.
    options.provider = model.provider;
    options.provider_from = "package";
  } else if (const auto request = project == nullptr ? std::nullopt : project->provider_request()) {
    options.provider = request->providers;
    options.provider_from = "gpux.yml";
    place = project->where(request->key);
  }
  if (const Said strict = flag_or_variable(flags.strict, "--strict", "GPUX_STRICT")) {
    options.strict = strictness(strict);
  } else {
    options.strict = declared.strict.value_or(Strictness::off);
  }
  if (const Said level = flag_or_variable(flags.optimization, "--optimization-level", "GPUX_OPTIMIZATION")) {
    options.optimization = optimization(level);
  } else {
    options.optimization = declared.optimization.value_or(Optimization::all);
  }
  read_provider_options(flags, options);
  read_shapes(flags, options);
  if (project != nullptr && came_with_the_package(*project, model)) require_portable_options(*project);
  if (project != nullptr) read_project(*project, options);
  read_packaged_shapes(model, options);
  check_request(options, place);

  if (const Said limit = flag_or_variable(timeout, "--timeout", "GPUX_TIMEOUT")) {
    settings.timeout = time_limit(limit);
  } else {
    settings.timeout = declared.timeout;
  }
  settings.batch_limit = static_cast<std::uint64_t>(declared.batch_size.value_or(0));
  set_isolation(flags, model, settings);
  return settings;
}

LoadSettings resolve_check(const LoadFlags& flags, const LocatedModel& model) {
  if (model.pulled_from.empty()) return resolve_load(flags, {}, model);
  LoadFlags in_worker = flags;
  if (!worker_program().empty()) in_worker.worker_use = WorkerUse::once;
  LoadSettings settings = resolve_load(in_worker, {}, model);
  LoadOptions& options = settings.options;
  options.worker_name = model.name;
  options.profile.clear();
  options.strict = Strictness::off;
  if (lower(options.provider) == "fastest") options.provider = "auto";
  if (in_worker.worker_use == WorkerUse::once) note_isolation_obstacle(settings, {});
  return settings;
}

}  // namespace gpux
