#include "isolation/load_message.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/format_message.h"
#include "gpux/error.h"
#include "isolation/load_facts.h"
#include "isolation/load_files.h"

namespace gpux::isolation {
namespace {

using Json = nlohmann::json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

Json json_of(const Pairs& pairs) {
  Json list = Json::array();
  for (const auto& [key, value] : pairs) list.push_back(Json::array({key, value}));
  return list;
}

Pairs pairs_from(const Json& list) {
  Pairs pairs;
  for (const Json& pair : list) pairs.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  return pairs;
}

Json json_of(const std::vector<std::filesystem::path>& paths) {
  Json list = Json::array();
  for (const std::filesystem::path& path : paths) list.push_back(path.string());
  return list;
}

std::vector<std::filesystem::path> paths_from(const Json& list) {
  std::vector<std::filesystem::path> paths;
  for (const Json& path : list) paths.emplace_back(path.get<std::string>());
  return paths;
}

template <typename Value>
Json json_of(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

template <typename Value>
std::optional<Value> optional_from(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<Value>());
}

Json json_of(const std::vector<ProviderLibrary>& libraries) {
  Json list = Json::array();
  for (const ProviderLibrary& library : libraries) list.push_back(Json::array({library.name, library.path.string()}));
  return list;
}

std::vector<ProviderLibrary> libraries_from(const Json& list) {
  std::vector<ProviderLibrary> libraries;
  for (const Json& one : list) libraries.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>()});
  return libraries;
}

Json json_of(const std::vector<ProviderOptions>& options) {
  Json list = Json::array();
  for (const ProviderOptions& one : options) {
    list.push_back({{"provider", one.provider}, {"values", json_of(one.values)}, {"where", one.where}});
  }
  return list;
}

std::vector<ProviderOptions> provider_options_from(const Json& list) {
  std::vector<ProviderOptions> options;
  for (const Json& one : list) {
    options.push_back(
        {one.at("provider").get<std::string>(), pairs_from(one.at("values")), one.at("where").get<std::string>()});
  }
  return options;
}

Json json_of(const std::vector<OptimizedGraph>& graphs) {
  Json list = Json::array();
  for (const OptimizedGraph& graph : graphs) {
    list.push_back(Json::array({graph.file.string(), graph.provider, graph.runtime_version, graph.device,
                                graph.optimization, graph.machine, graph.provider_options}));
  }
  return list;
}

std::vector<OptimizedGraph> graphs_from(const Json& list) {
  std::vector<OptimizedGraph> graphs;
  for (const Json& one : list) {
    const auto text = [&](std::size_t index) { return one.at(index).get<std::string>(); };
    graphs.push_back({text(0), text(1), text(2), text(3), text(4), text(5), text(6)});
  }
  return graphs;
}

Json json_of(const std::vector<PrecisionVariant>& variants) {
  Json list = Json::array();
  for (const PrecisionVariant& one : variants) {
    list.push_back({{"file", one.file.string()},
                    {"precision", one.precision},
                    {"provider", one.provider},
                    {"weight_bits", one.weight_bits},
                    {"mean_cosine", one.mean_cosine}});
  }
  return list;
}

std::vector<PrecisionVariant> variants_from(const Json& list) {
  std::vector<PrecisionVariant> variants;
  for (const Json& one : list) {
    variants.push_back({.file = one.at("file").get<std::string>(),
                        .precision = one.at("precision").get<std::string>(),
                        .provider = one.at("provider").get<std::string>(),
                        .weight_bits = one.at("weight_bits").get<unsigned>(),
                        .mean_cosine = one.at("mean_cosine").get<double>()});
  }
  return variants;
}

Json json_of(const std::optional<PooledOutput>& pooled) {
  if (!pooled) return {};
  Json poolings = Json::array();
  for (const Pooling pooling : pooled->poolings) poolings.push_back(static_cast<int>(pooling));
  return {{"token_vectors", pooled->token_vectors},
          {"attention_mask", pooled->attention_mask},
          {"poolings", std::move(poolings)},
          {"normalizes", pooled->normalizes}};
}

std::optional<PooledOutput> pooled_output_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  PooledOutput pooled{.token_vectors = json.at("token_vectors").get<std::string>(),
                      .attention_mask = json.at("attention_mask").get<std::string>(),
                      .poolings = {},
                      .normalizes = json.at("normalizes").get<bool>()};
  for (const Json& pooling : json.at("poolings")) pooled.poolings.push_back(static_cast<Pooling>(pooling.get<int>()));
  return pooled;
}

Json json_of(const std::optional<ComparedProvider>& compared) {
  if (!compared) return nullptr;
  const auto& [provider, agreement, samples, difference] = *compared;
  return Json::array({provider, agreement, samples, difference});
}

std::optional<ComparedProvider> compared_provider_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return ComparedProvider{.provider = json.at(0).get<std::string>(),
                          .agreement = json.at(1).get<double>(),
                          .samples = json.at(2).get<unsigned>(),
                          .difference = json.at(3).get<std::string>()};
}

Json json_of(const std::vector<ExpectedSize>& sizes) {
  Json list = Json::array();
  for (const auto& [input, dimension, smallest, tuned, largest, from] : sizes) {
    list.push_back(Json::array({input, dimension, smallest, tuned, largest, from}));
  }
  return list;
}

std::vector<ExpectedSize> expected_sizes_from(const Json& list) {
  std::vector<ExpectedSize> sizes;
  for (const Json& one : list) {
    sizes.push_back({.input = one.at(0).get<std::string>(),
                     .dimension = one.at(1).get<std::size_t>(),
                     .smallest = one.at(2).get<std::int64_t>(),
                     .tuned = one.at(3).get<std::int64_t>(),
                     .largest = one.at(4).get<std::int64_t>(),
                     .from = one.at(5).get<std::string>()});
  }
  return sizes;
}

// What a worker must not write is left out: RemoteSession refuses it. The names are all fields, in their order, so that
// a new one does not compile until it is passed on.
Json json_of(const LoadOptions& options) {
  const auto& [provider, provider_from, provider_libraries, provider_options, strict, device, memory_bytes, precision,
               min_cosine, cache_directory, intra_threads, inter_threads, optimization, profile, optimized_model,
               optimized_graphs, precision_variants, compared_provider, session_config, custom_operator_libraries,
               map_weights, before, after, pooled_output, cache_precision, expected_sizes, batch_axis, batch_axis_from,
               isolation, restart_worker, preflight, preflight_timeout, sandbox, stop_grace, max_restart_delay, facts] =
      options;
  (void)profile, (void)optimized_model, (void)isolation, (void)stop_grace, (void)max_restart_delay;
  (void)restart_worker, (void)preflight, (void)preflight_timeout, (void)batch_axis,
      (void)batch_axis_from;  // decided in the process that schedules the runs
  (void)facts;                // reported by the process that started the worker, but for what crashed
  Json json;
  json["provider"] = provider;
  json["provider_from"] = provider_from;
  json["provider_libraries"] = json_of(provider_libraries);
  json["provider_options"] = json_of(provider_options);
  json["strict"] = static_cast<int>(strict);
  json["device"] = json_of(device);
  json["memory_bytes"] = json_of(memory_bytes);
  json["precision"] = precision;
  json["min_cosine"] = min_cosine;
  json["cache_directory"] = cache_directory.string();
  json["intra_threads"] = json_of(intra_threads);
  json["inter_threads"] = json_of(inter_threads);
  json["optimization"] = static_cast<int>(optimization);
  json["optimized_graphs"] = json_of(optimized_graphs);
  json["precision_variants"] = json_of(precision_variants);
  json["compared_provider"] = json_of(compared_provider);
  json["session_config"] = json_of(session_config);
  json["custom_operator_libraries"] = json_of(custom_operator_libraries);
  json["sandbox"] = static_cast<int>(sandbox);
  json["map_weights"] = map_weights;
  json["before"] = before.string();
  json["after"] = after.string();
  json["pooled_output"] = json_of(pooled_output);
  json["cache_precision"] = static_cast<int>(cache_precision);
  json["expected_sizes"] = json_of(expected_sizes);
  json["crashed_providers"] = json_of(facts_of(options).crashed_providers);
  json["cache_address_bytes"] = facts_of(options).cache_address_bytes;
  return json;
}

LoadOptions options_from(const Json& json) {
  LoadOptions options;
  options.provider = json.at("provider").get<std::string>();
  options.provider_from = json.at("provider_from").get<std::string>();
  options.provider_libraries = libraries_from(json.at("provider_libraries"));
  options.provider_options = provider_options_from(json.at("provider_options"));
  options.strict = static_cast<Strictness>(json.at("strict").get<int>());
  options.device = optional_from<unsigned>(json.at("device"));
  options.memory_bytes = optional_from<std::uint64_t>(json.at("memory_bytes"));
  options.precision = json.at("precision").get<std::string>();
  options.min_cosine = json.at("min_cosine").get<double>();
  options.cache_directory = json.at("cache_directory").get<std::string>();
  options.intra_threads = optional_from<unsigned>(json.at("intra_threads"));
  options.inter_threads = optional_from<unsigned>(json.at("inter_threads"));
  options.optimization = static_cast<Optimization>(json.at("optimization").get<int>());
  options.optimized_graphs = graphs_from(json.at("optimized_graphs"));
  options.precision_variants = variants_from(json.at("precision_variants"));
  options.compared_provider = compared_provider_from(json.at("compared_provider"));
  options.session_config = pairs_from(json.at("session_config"));
  options.custom_operator_libraries = paths_from(json.at("custom_operator_libraries"));
  options.sandbox = static_cast<Sandbox>(json.at("sandbox").get<int>());
  options.map_weights = json.at("map_weights").get<bool>();
  options.before = json.at("before").get<std::string>();
  options.after = json.at("after").get<std::string>();
  options.pooled_output = pooled_output_from(json.at("pooled_output"));
  options.cache_precision = static_cast<CachePrecision>(json.at("cache_precision").get<int>());
  options.expected_sizes = expected_sizes_from(json.at("expected_sizes"));
  CrashedProviders crashed = pairs_from(json.at("crashed_providers"));
  const auto cache_address_bytes = json.at("cache_address_bytes").get<std::uint64_t>();
  change_facts(options, [&](LoadFacts& facts) {
    facts.crashed_providers = std::move(crashed);
    facts.cache_address_bytes = cache_address_bytes;
  });
  return options;
}

// Texts, and subjects as [kind, name].
Json json_of(const Message& message) {
  Json parts = Json::array();
  for (const auto& part : message) {
    const auto* subject = std::get_if<Subject>(&part);
    parts.push_back(subject == nullptr ? Json(std::get<std::string>(part))
                                       : Json::array({static_cast<int>(subject->kind), subject->name}));
  }
  return parts;
}

Message message_from(const Json& parts) {
  Message message;
  for (const Json& part : parts) {
    if (part.is_string()) {
      message.emplace_back(part.get<std::string>());
    } else {
      const auto kind = static_cast<Subject::Kind>(part.at(0).get<std::uint8_t>());
      message.emplace_back(Subject{.kind = kind, .name = part.at(1).get<std::string>()});
    }
  }
  return message;
}

// All fields, as of the options.
Json json_of(const Device& device) {
  const auto& [kind, name, vendor, index, memory_bytes, driver, architecture, address] = device;
  return {{"kind", kind},       {"name", name},
          {"vendor", vendor},   {"index", index},
          {"driver", driver},   {"memory_bytes", memory_bytes},
          {"address", address}, {"architecture", architecture}};
}

Device device_from(const Json& json) {
  return {.kind = json.at("kind").get<std::string>(),
          .name = json.at("name").get<std::string>(),
          .vendor = json.at("vendor").get<std::string>(),
          .index = json.at("index").get<std::uint32_t>(),
          .memory_bytes = json.at("memory_bytes").get<std::uint64_t>(),
          .driver = json.at("driver").get<std::string>(),
          .architecture = json.at("architecture").get<std::string>(),
          .address = json.at("address").get<std::string>()};
}

Json json_of(const ProviderAttempt& attempt) {
  Json devices = Json::array();
  for (const Device& device : attempt.devices) devices.push_back(json_of(device));
  return {{"id", attempt.id},
          {"ort_name", attempt.ort_name},
          {"source", attempt.source},
          {"outcome", static_cast<int>(attempt.outcome)},
          {"reason", attempt.reason},
          {"remedy", json_of(attempt.remedy)},
          {"devices", std::move(devices)},
          {"device", attempt.device ? json_of(*attempt.device) : Json()},
          {"options", json_of(attempt.options)},
          {"node_count", attempt.node_count},
          {"node_share", attempt.node_share},
          {"other_core", attempt.other_core},
          {"shapes", attempt.shapes},
          {"shapes_from", attempt.shapes_from},
          {"engine_folder", attempt.engine_folder},
          {"has_kept_engine", attempt.has_kept_engine}};
}

ProviderAttempt attempt_from(const Json& json) {
  ProviderAttempt attempt{.id = json.at("id").get<std::string>(),
                          .ort_name = json.at("ort_name").get<std::string>(),
                          .source = json.at("source").get<std::string>(),
                          .outcome = static_cast<ProviderAttempt::Outcome>(json.at("outcome").get<int>()),
                          .reason = json.at("reason").get<std::string>(),
                          .remedy = message_from(json.at("remedy")),
                          .devices = {},
                          .options = pairs_from(json.at("options")),
                          .node_count = json.at("node_count").get<std::uint64_t>(),
                          .node_share = json.at("node_share").get<double>(),
                          .other_core = json.at("other_core").get<bool>(),
                          .shapes = json.at("shapes").get<std::string>(),
                          .shapes_from = json.at("shapes_from").get<std::string>(),
                          .engine_folder = json.at("engine_folder").get<std::string>(),
                          .has_kept_engine = json.at("has_kept_engine").get<bool>()};
  for (const Json& device : json.at("devices")) attempt.devices.push_back(device_from(device));
  if (const Json& device = json.at("device"); !device.is_null()) attempt.device = device_from(device);
  return attempt;
}

Json json_of(const Verdict& verdict) {
  Json tried = Json::array();
  for (const ProviderAttempt& attempt : verdict.tried) tried.push_back(json_of(attempt));
  Json notes = Json::array();
  for (const Message& note : verdict.notes) notes.push_back(json_of(note));
  return {{"requested", verdict.requested},
          {"requested_from", verdict.requested_from},
          {"tried", std::move(tried)},
          {"active", verdict.active},
          {"node_count", verdict.node_count},
          {"precision", verdict.precision},
          {"placement_known", verdict.placement_known},
          {"fell_back", verdict.fell_back},
          {"notes", std::move(notes)},
          {"runtime_version", verdict.runtime_version},
          {"runtime_path", verdict.runtime_path}};
}

Verdict verdict_from(const Json& json) {
  Verdict verdict{.requested = json.at("requested").get<std::string>(),
                  .requested_from = json.at("requested_from").get<std::string>(),
                  .tried = {},
                  .active = json.at("active").get<std::vector<std::string>>(),
                  .node_count = json.at("node_count").get<std::uint64_t>(),
                  .precision = json.at("precision").get<std::string>(),
                  .placement_known = json.at("placement_known").get<bool>(),
                  .fell_back = json.at("fell_back").get<bool>(),
                  .notes = {},
                  .runtime_version = json.at("runtime_version").get<std::string>(),
                  .runtime_path = json.at("runtime_path").get<std::string>()};
  for (const Json& attempt : json.at("tried")) verdict.tried.push_back(attempt_from(attempt));
  for (const Json& note : json.at("notes")) verdict.notes.push_back(message_from(note));
  return verdict;
}

}  // namespace

WorkerLoad worker_load_of(const std::filesystem::path& model, const LoadOptions& options) {
  WorkerLoad request{model, options, {}};
  if (options.sandbox != Sandbox::off) request.files = files_of_load(model, options);
  return request;
}

std::string to_json(const WorkerLoad& request) {
  try {
    return Json{
        {"model", request.model.string()}, {"options", json_of(request.options)}, {"files", json_of(request.files)}}
        .dump();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::usage,
                format_message("'{}' cannot be loaded in a worker process: accepted are options and paths in UTF-8",
                               file_at(request.model)));
  }
}

WorkerLoad worker_load_from(const std::string& text) {
  try {
    const Json json = parse_bounded_json(text);
    return {json.at("model").get<std::string>(), options_from(json.at("options")), paths_from(json.at("files"))};
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::internal, fmt::format("the options of a worker process cannot be read: {}", error.what()));
  }
}

std::string to_json(const LoadReport& report) {
  Json placement = Json::array();
  for (const Runtime::PlacedNode& node : report.placement) {
    placement.push_back(Json::array({node.provider, node.name, node.domain, node.operator_type}));
  }
  const Json json{{"verdict", json_of(report.verdict)},
                  {"weights", report.weights},
                  {"computed_by", report.computed_by},
                  {"output_names", report.output_names},
                  {"placement", std::move(placement)},
                  {"uses_pinned_memory", report.uses_pinned_memory},
                  {"identity", json_of(report.identity)},
                  {"stored_values", report.stored_caches.values},
                  {"stored_element", std::string(to_string(report.stored_caches.element))}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

// A worker that runs a stranger's model may say anything.
ElementType stored_element_from(const std::string& name) {
  for (const ElementType element : {ElementType::float16, ElementType::int8}) {
    if (name == to_string(element)) return element;
  }
  throw Error(ErrorCode::internal, "a worker process reports keys and values of an unknown type");
}

}  // namespace

LoadReport load_report_from(const std::string& text) {
  try {
    const Json json = parse_bounded_json(text);
    LoadReport report{.verdict = verdict_from(json.at("verdict")),
                      .weights = json.at("weights").get<std::size_t>(),
                      .computed_by = json.at("computed_by").get<std::string>(),
                      .output_names = json.at("output_names").get<std::vector<std::string>>(),
                      .placement = {},
                      .uses_pinned_memory = json.at("uses_pinned_memory").get<bool>(),
                      .identity = pairs_from(json.at("identity")),
                      .stored_caches = {.values = json.at("stored_values").get<std::set<std::string>>(),
                                        .element = stored_element_from(json.at("stored_element").get<std::string>())}};
    for (const Json& node : json.at("placement")) {
      report.placement.push_back({node.at(0).get<std::string>(), node.at(1).get<std::string>(),
                                  node.at(2).get<std::string>(), node.at(3).get<std::string>()});
    }
    return report;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::internal, fmt::format("the report of a worker process cannot be read: {}", error.what()));
  }
}

LoadReport believable(LoadReport report, std::span<const SignatureEntry> outputs, bool may_have_pooled) {
  const bool has_pooled = may_have_pooled && report.output_names.size() == outputs.size() + 1;
  const auto own = std::span(report.output_names).first(report.output_names.size() - (has_pooled ? 1 : 0));
  if (!std::ranges::equal(own, outputs, {}, {}, &SignatureEntry::name)) {
    throw Error(ErrorCode::internal, "a worker process reports other outputs than the model has");
  }
  std::erase_if(report.verdict.notes, [](const std::string& note) {
    return note.starts_with("sandboxed") || note.starts_with("not sandboxed");
  });
  return report;
}

}  // namespace gpux::isolation
