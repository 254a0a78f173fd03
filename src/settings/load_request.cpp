#include "settings/load_request.h"

#include <fmt/format.h>

#include "settings/read_setting.h"

namespace gpux {
namespace {

Source call(const char* member) {
  return {.kind = Source::Kind::call, .name = member, .place = {}};
}

template <typename Value>
void append(std::vector<Value>& list, const std::vector<Value>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

MaybeSetting<unsigned> thread_count(std::optional<unsigned> count, const char* member) {
  if (!count) return std::nullopt;
  return Setting<unsigned>{checked_thread_count(*count, call(member)), call(member)};
}

}  // namespace

LoadRequest merge(LoadRequest first, const LoadRequest& second) {
  // All members, so that a new one does not compile until it is merged.
  const auto& [provider, strict, device, memory_bytes, precision, min_cosine, cache_directory, intra_threads,
               inter_threads, optimization, profile, shapes, timeout, batch_axis, isolation, sandbox, preflight,
               preflight_timeout, provider_libraries, provider_options, session_config, custom_operator_libraries,
               worker_use] = second;
  (void)worker_use;
  fill(first.provider, provider);
  fill(first.strict, strict);
  fill(first.device, device);
  fill(first.memory_bytes, memory_bytes);
  fill(first.precision, precision);
  fill(first.min_cosine, min_cosine);
  fill(first.cache_directory, cache_directory);
  fill(first.intra_threads, intra_threads);
  fill(first.inter_threads, inter_threads);
  fill(first.optimization, optimization);
  fill(first.profile, profile);
  fill(first.shapes, shapes);
  fill(first.timeout, timeout);
  fill(first.batch_axis, batch_axis);
  fill(first.isolation, isolation);
  fill(first.sandbox, sandbox);
  fill(first.preflight, preflight);
  fill(first.preflight_timeout, preflight_timeout);
  append(first.provider_libraries, provider_libraries);
  append(first.provider_options, provider_options);
  append(first.session_config, session_config);
  append(first.custom_operator_libraries, custom_operator_libraries);
  return first;
}

LoadRequest request_of(const ModelOptions& options) {
  LoadRequest request;
  if (!options.provider.empty()) request.provider = {options.provider, call(options.provider_from.c_str())};
  request.strict = setting(options.strict, call("strict"));
  request.device = setting(options.device, call("device"));
  request.memory_bytes = setting(options.memory_bytes, call("memory_bytes"));
  if (!options.precision.empty()) {
    request.precision = {read_precision(options.precision, call("precision")), call("precision")};
  }
  request.intra_threads = thread_count(options.intra_threads, "intra_threads");
  request.inter_threads = thread_count(options.inter_threads, "inter_threads");
  request.optimization = setting(options.optimization, call("optimization"));
  if (!options.cache_directory.empty()) request.cache_directory = {options.cache_directory, call("cache_directory")};
  request.timeout = setting(options.timeout, call("timeout"));
  if (request.timeout && request.timeout->value.count() <= 0) {
    refuse(std::to_string(request.timeout->value.count()), call("timeout"), "more than 0 ms");
  }
  request.provider_libraries = options.provider_libraries;
  request.provider_options = options.provider_options;
  for (ProviderOptions& provider : request.provider_options) {
    if (provider.where.empty()) provider.where = "provider_options";
  }
  request.session_config = options.session_config;
  for (const std::filesystem::path& library : options.custom_operator_libraries) {
    request.custom_operator_libraries.push_back({library, call("custom_operator_libraries")});
  }
  request.isolation = setting(options.isolation, call("isolation"));
  request.sandbox = setting(options.sandbox, call("sandbox"));
  if (request.isolation || request.sandbox) request.worker_use = WorkerUse::restarted;
  return request;
}

LoadRequest request_of(const ProjectFile& project) {
  LoadRequest request;
  const RuntimeSettings& runtime = project.runtime;
  const auto source = [&](std::string_view key) {
    return Source{.kind = Source::Kind::file, .name = std::string(key), .place = project.where(key)};
  };
  if (const auto asked = project.provider_request()) {
    request.provider = {asked->providers,
                        {.kind = Source::Kind::file, .name = "gpux.yml", .place = project.where(asked->key)}};
  }
  request.strict = setting(runtime.strict, source("runtime.strict"));
  request.device = setting(runtime.device, source("runtime.gpu.device"));
  request.memory_bytes = setting(runtime.memory_limit_bytes, source("runtime.gpu.memory"));
  if (!runtime.precision.empty()) request.precision = {runtime.precision, source("runtime.precision")};
  request.intra_threads = setting(runtime.intra_threads, source("runtime.threads.intra"));
  request.inter_threads = setting(runtime.inter_threads, source("runtime.threads.inter"));
  request.optimization = setting(runtime.optimization, source("runtime.optimization"));
  request.profile = setting(runtime.profile, source("runtime.profile"));
  request.timeout = setting(runtime.timeout, source("runtime.timeout"));
  request.batch_axis =
      setting(project.serving.batch_axis,
              {.kind = Source::Kind::file, .name = "serving.batch_axis", .place = project.where("serving.batch_axis")});
  for (const DeclaredProvider& declared : runtime.providers) {
    const std::string place = project.where(declared.position);
    request.provider_options.push_back({declared.name, declared.options, place});
    if (!declared.library.empty()) request.provider_libraries.push_back({declared.name, declared.library});
  }
  for (const DeclaredLibrary& library : runtime.provider_libraries) {
    request.provider_libraries.push_back({library.name, library.path});
  }
  for (const DeclaredLibrary& library : runtime.custom_operators) {
    request.custom_operator_libraries.push_back(
        {library.path, {.kind = Source::Kind::file, .name = "gpux.yml", .place = project.where(library.position)}});
  }
  return request;
}

LoadRequest request_of(const ListedModel& listed) {
  LoadRequest request;
  const Source list{.kind = Source::Kind::file, .name = "the list of models", .place = {}};
  if (!listed.provider.empty()) request.provider = {listed.provider, list};
  request.strict = setting(listed.strict, list);
  request.isolation = setting(listed.isolation, list);
  if (listed.limits.memory_bytes != 0) {
    request.memory_bytes = {
        listed.limits.memory_bytes,
        {.kind = Source::Kind::file, .name = fmt::format("models.{}.limits.memory", listed.name), .place = {}}};
  }
  request.batch_axis =
      setting(listed.serving.batch_axis,
              {.kind = Source::Kind::file, .name = fmt::format("models.{}.batch_axis", listed.name), .place = {}});
  return request;
}

}  // namespace gpux
