#include "cli/model_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "provider/own_provider.h"

namespace gpux::cli {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json pairs_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json json = Json::object();
  for (const auto& [key, value] : pairs) json[key] = value;
  return json;
}

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::softmax:
      return "softmax";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::none:
      break;
  }
  return "none";
}

const char* strictness_name(Strictness strictness) {
  switch (strictness) {
    case Strictness::provider:
      return "true";
    case Strictness::nodes:
      return "nodes";
    case Strictness::off:
      break;
  }
  return "false";
}

Json declared_json(const std::optional<std::vector<DeclaredValue>>& declared) {
  if (!declared) return nullptr;
  Json list = Json::array();
  for (const DeclaredValue& value : *declared) {
    Json json;
    json["name"] = value.name;
    json["type"] = to_string(value.type);
    json["required"] = or_null(value.required);
    json["description"] = value.description;
    if (!value.labels.empty()) {
      json["labels"] = value.labels;
      json["activation"] = activation_name(value.activation);
      json["top_k"] = or_null(value.top_k);
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json runtime_json(const RuntimeSettings& runtime) {
  Json json;
  json["gpu"] = {{"backend", or_null(runtime.backend)},
                 {"memory", or_null(runtime.memory_limit_bytes)},
                 {"device", or_null(runtime.device)}};
  json["providers"] = Json::array();
  for (const DeclaredProvider& provider : runtime.providers) {
    json["providers"].push_back(
        {{"name", provider.name}, {"options", pairs_json(provider.options)}, {"library", provider.library.string()}});
  }
  json["provider_libraries"] = Json::object();
  for (const DeclaredLibrary& library : runtime.provider_libraries) {
    json["provider_libraries"][library.name] = library.path.string();
  }
  json["custom_ops"] = Json::array();
  for (const DeclaredLibrary& library : runtime.custom_operators) json["custom_ops"].push_back(library.path.string());
  json["strict"] = runtime.strict ? Json(strictness_name(*runtime.strict)) : Json(nullptr);
  json["timeout"] = runtime.timeout ? Json(std::chrono::duration<double>(*runtime.timeout).count()) : Json(nullptr);
  json["threads"] = {{"intra", or_null(runtime.intra_threads)}, {"inter", or_null(runtime.inter_threads)}};
  json["precision"] = runtime.precision.empty() ? Json(nullptr) : Json(runtime.precision);
  json["optimization"] = runtime.optimization ? Json(to_string(*runtime.optimization)) : Json(nullptr);
  json["profile"] = runtime.profile ? Json(runtime.profile->string()) : Json(nullptr);
  json["batch_size"] = or_null(runtime.batch_size);
  return json;
}

/// The nodes of one provider.
struct Share {
  std::uint64_t count = 0;
  std::map<std::string, std::uint64_t> operators;
  std::vector<const Runtime::PlacedNode*> nodes;
};

std::string operator_name(const Runtime::PlacedNode& node) {
  return node.domain.empty() || node.domain == "ai.onnx" ? node.operator_type
                                                         : fmt::format("{}::{}", node.domain, node.operator_type);
}

std::vector<std::pair<std::string, Share>> shares_of(const std::vector<Runtime::PlacedNode>& placement) {
  std::map<std::string, Share> by_provider;
  for (const Runtime::PlacedNode& node : placement) {
    Share& share = by_provider[node.provider];
    ++share.count;
    ++share.operators[operator_name(node)];
    share.nodes.push_back(&node);
  }
  std::vector<std::pair<std::string, Share>> shares(by_provider.begin(), by_provider.end());
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  return shares;
}

double fraction(std::uint64_t part, std::size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string opset_list(const ModelInfo& info) {
  std::vector<std::string> words;
  for (const auto& [domain, version] : info.opsets) {
    words.push_back(fmt::format("{} {}", domain.empty() ? "ai.onnx" : domain, version));
  }
  return join(words);
}

std::string parameter_summary(const ModelInfo& info) {
  std::vector<std::string> words;
  for (const auto& [type, count] : info.parameter_types) words.push_back(fmt::format("{} {}", count, type));
  return fmt::format("{} ({}){}", info.parameter_count, format_bytes(info.parameter_bytes),
                     words.empty() ? std::string() : ": " + join(words));
}

void append_value_table(const char* title, const std::vector<SignatureEntry>& entries,
                        const std::optional<std::vector<DeclaredValue>>* declared, bool outputs, Tables& tables) {
  Table table{.head = {"NAME", "TYPE", outputs ? "LABELS" : "REQUIRED", "DESCRIPTION"}, .rows = {}};
  for (const SignatureEntry& entry : entries) {
    const DeclaredValue* known = nullptr;
    if (declared != nullptr && *declared) {
      for (const DeclaredValue& value : **declared) {
        if (value.name == entry.name) known = &value;
      }
    }
    std::string third = entry.required ? "yes" : "no";
    if (outputs) third = known == nullptr ? std::string() : join(known->labels);
    table.rows.push_back({entry.name, to_string(entry.type), std::move(third),
                          known == nullptr || known->description.empty() ? entry.description : known->description});
  }
  tables.emplace_back(title, std::move(table));
}

/// Rows of name and value, those without a value left out.
Table properties(std::vector<std::vector<std::string>> rows) {
  std::erase_if(rows, [](const auto& row) { return row[1].empty(); });
  return {.head = {}, .rows = std::move(rows)};
}

template <typename T>
std::string or_empty(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

}  // namespace

Json to_json(const ProjectFile& project) {
  Json json;
  json["file"] = project.file.string();
  json["name"] = project.name;
  json["version"] = project.version;
  json["description"] = project.description;
  json["model"] = {{"source", project.source.string()},
                   {"format", "onnx"},
                   {"version", project.model_version},
                   {"files", project.files}};
  json["inputs"] = declared_json(project.inputs);
  json["outputs"] = declared_json(project.outputs);
  json["runtime"] = runtime_json(project.runtime);
  const auto request = project.provider_request();
  json["provider"] = request ? Json{{"request", request->providers}, {"from", request->key}} : Json(nullptr);
  json["metadata"] = pairs_json(project.metadata);
  return json;
}

Json to_json(const StoredModel& stored) {
  const PackageManifest& package = stored.package;
  Json json;
  json["reference"] = stored.reference.text();
  json["id"] = "sha256:" + stored.digest;
  json["short_id"] = stored.short_id();
  json["created"] = stored.created;
  json["name"] = package.name;
  json["version"] = package.version;
  json["description"] = package.description;
  json["provider"] = package.provider;
  json["precision"] = package.precision;
  json["model_file"] = package.model_file;
  json["size_bytes"] = package.total_bytes();
  json["files"] = Json::array();
  for (const StoredFile& file : package.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.blob.bytes}, {"digest", file.blob.digest}});
  }
  json["variants"] = Json::array();
  for (const Variant& variant : package.variants) {
    json["variants"].push_back({{"model_file", variant.model_file},
                                {"provider", variant.target.provider},
                                {"runtime_version", variant.target.runtime_version},
                                {"device", variant.target.device},
                                {"optimization_level", variant.target.optimization_level},
                                {"machine", variant.target.machine},
                                {"provider_options", variant.target.provider_options}});
    if (!variant.precision) continue;
    Json& entry = json["variants"].back();
    entry["precision"] = variant.precision->name;
    entry["weight_bits"] = variant.precision->weight_bits;
    entry["mean_cosine"] = variant.precision->mean_cosine;
    entry["least_cosine"] = variant.precision->least_cosine;
    entry["samples"] = variant.precision->samples;
  }
  if (const auto& compared = package.compared_provider) {
    json["compared_provider"] = {{"provider", compared->provider},
                                 {"least_cosine", compared->agreement},
                                 {"samples", compared->samples},
                                 {"difference", compared->difference}};
  }
  json["metadata"] = pairs_json(package.metadata);
  if (!package.origin.source.empty()) {
    json["origin"] = {
        {"source", package.origin.source}, {"revision", package.origin.revision}, {"file", package.origin.file}};
  }
  return json;
}

std::string stored_line(const StoredModel& stored, std::span<const Reference> names) {
  std::vector<std::string> texts;
  for (const Reference& name : names) texts.push_back(name.text());
  return fmt::format("stored {} ({}, {}, {})", join(texts), stored.short_id(),
                     counted(stored.package.files.size(), "file"), format_bytes(stored.package.total_bytes()));
}

Json placement_json(const Runtime& runtime) {
  if (!runtime.verdict().placement_known) return nullptr;
  const std::vector<Runtime::PlacedNode> placement = runtime.placement();
  Json list = Json::array();
  for (const auto& [provider, share] : shares_of(placement)) {
    Json json;
    json["provider"] = provider;
    json["node_count"] = share.count;
    json["share"] = fraction(share.count, placement.size());
    json["operators"] = Json::object();
    for (const auto& [name, count] : share.operators) json["operators"][name] = count;
    json["nodes"] = Json::array();
    for (const Runtime::PlacedNode* node : share.nodes) {
      json["nodes"].push_back({{"name", node->name}, {"operator", operator_name(*node)}});
    }
    list.push_back(std::move(json));
  }
  return list;
}

void append_model_tables(const ModelInfo& info, const ProjectFile* project, Tables& tables) {
  const std::string producer = fmt::format("{} {}", info.producer_name, info.producer_version);
  tables.emplace_back("Model", properties({
                                   {"name", info.name},
                                   {"version", info.version},
                                   {"format", info.format},
                                   {"path", info.path.string()},
                                   {"size", format_bytes(info.size_bytes)},
                                   {"graph", info.graph_name},
                                   {"description", info.description},
                                   {"opsets", opset_list(info)},
                                   {"IR version", std::to_string(info.ir_version)},
                                   {"model version", info.model_version == 0 ? "" : std::to_string(info.model_version)},
                                   {"producer", producer == " " ? "" : producer},
                                   {"domain", info.domain},
                                   {"nodes", std::to_string(info.node_count)},
                                   {"parameters", parameter_summary(info)},
                               }));
  append_value_table("Inputs", info.signature.inputs, project == nullptr ? nullptr : &project->inputs, false, tables);
  append_value_table("Outputs", info.signature.outputs, project == nullptr ? nullptr : &project->outputs, true, tables);

  std::vector<std::pair<std::string, std::uint64_t>> operators(info.operators.begin(), info.operators.end());
  std::stable_sort(operators.begin(), operators.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table histogram{.head = {"OPERATOR", "NODES"}, .rows = {}};
  for (const auto& [name, count] : operators) histogram.rows.push_back({name, std::to_string(count)});
  tables.emplace_back("Operators", std::move(histogram));

  Table files{.head = {"FILE", "SIZE", "THERE"}, .rows = {}};
  for (const ExternalFile& file : info.external_files) {
    files.rows.push_back({file.location, format_bytes(file.bytes), file.present ? "yes" : "no"});
  }
  tables.emplace_back("External files", std::move(files));

  Table metadata;
  for (const auto& [key, value] : info.metadata) metadata.rows.push_back({key, value});
  tables.emplace_back("Metadata", std::move(metadata));
}

void append_project_table(const ProjectFile& project, Tables& tables) {
  const RuntimeSettings& runtime = project.runtime;
  const auto request = project.provider_request();
  tables.emplace_back(
      "Configuration",
      properties({
          {"file", project.file.string()},
          {"name", project.name},
          {"version", project.version},
          {"description", project.description},
          {"model source", project.source.string()},
          {"provider", request ? fmt::format("{} ({})", request->providers, request->key) : "auto (default)"},
          {"device", or_empty(runtime.device)},
          {"memory limit", runtime.memory_limit_bytes ? format_bytes(*runtime.memory_limit_bytes) : "none"},
          {"strict", runtime.strict ? strictness_name(*runtime.strict) : ""},
          {"timeout",
           runtime.timeout ? fmt::format("{} s", std::chrono::duration<double>(*runtime.timeout).count()) : "none"},
          {"batch size", or_empty(runtime.batch_size)},
          {"threads inside an operator", or_empty(runtime.intra_threads)},
          {"threads between operators", or_empty(runtime.inter_threads)},
          {"precision", runtime.precision},
          {"optimization", runtime.optimization ? std::string(to_string(*runtime.optimization)) : std::string()},
          {"profile", runtime.profile ? runtime.profile->string() : std::string()},
      }));
}

void append_package_tables(const StoredModel& stored, Tables& tables) {
  const PackageManifest& package = stored.package;
  tables.emplace_back("Package", properties({
                                     {"name", stored.reference.text()},
                                     {"id", stored.short_id()},
                                     {"digest", "sha256:" + stored.digest},
                                     {"created", stored.created},
                                     {"version", package.version},
                                     {"description", package.description},
                                     {"built for", package.provider},
                                     {"precision", package.precision},
                                     {"pulled from", package.origin.source},
                                     {"revision", package.origin.revision},
                                     {"file of the source", package.origin.file},
                                     {"size", format_bytes(package.total_bytes())},
                                 }));
  Table files{.head = {"FILE", "SIZE", "DIGEST"}, .rows = {}};
  for (const StoredFile& file : package.files) {
    files.rows.push_back({file.name, format_bytes(file.blob.bytes), file.blob.digest.substr(0, 12)});
  }
  tables.emplace_back("Files", std::move(files));
  Table variants{.head = {"VARIANT", "PROVIDER", "DEVICE", "OPTIMIZATION", "ONNX RUNTIME", "MACHINE", "OPTIONS"},
                 .rows = {}};
  Table precisions{.head = {"VARIANT", "PROVIDER", "PRECISION", "WEIGHT BITS", "MEAN COSINE", "LEAST", "SAMPLES"},
                   .rows = {}};
  for (const Variant& variant : package.variants) {
    const VariantTarget& target = variant.target;
    if (variant.precision) {
      const VariantPrecision& precision = *variant.precision;
      precisions.rows.push_back({variant.model_file, target.provider, precision.name,
                                 std::to_string(precision.weight_bits), fmt::format("{:.4f}", precision.mean_cosine),
                                 fmt::format("{:.4f}", precision.least_cosine), std::to_string(precision.samples)});
      continue;
    }
    variants.rows.push_back({variant.model_file, target.provider, target.device, target.optimization_level,
                             target.runtime_version, target.machine, target.provider_options});
  }
  tables.emplace_back("Variants", std::move(variants));
  tables.emplace_back("Variants in another precision", std::move(precisions));
  Table compared{.head = {"PROVIDER", "LEAST COSINE", "SAMPLES", "AUTO TAKES IT"}, .rows = {}};
  if (const auto& one = package.compared_provider) {
    const bool was_compared = one->difference.empty();
    const std::string reason = provider::disagreement(*one);
    compared.rows.push_back(
        {one->provider, was_compared ? fmt::format("{}", one->agreement) : "",
         was_compared ? std::to_string(one->samples) : "",
         reason.empty() ? "on processors with AVX2, where there is no accelerator" : "no: " + reason});
  }
  tables.emplace_back("gpux's own provider, compared with the CPU provider", std::move(compared));
}

void append_placement_tables(const Runtime& runtime, Tables& tables) {
  if (!runtime.verdict().placement_known) return;
  const std::vector<Runtime::PlacedNode> placement = runtime.placement();
  Table counts{.head = {"PROVIDER", "NODES", "SHARE", "OPERATORS"}, .rows = {}};
  Table nodes{.head = {"PROVIDER", "OPERATOR", "NODE"}, .rows = {}};
  for (const auto& [provider, share] : shares_of(placement)) {
    std::vector<std::string> operators;
    for (const auto& [name, count] : share.operators) operators.push_back(fmt::format("{} {}", count, name));
    counts.rows.push_back({provider, std::to_string(share.count),
                           fmt::format("{:.1f} %", 100 * fraction(share.count, placement.size())), join(operators)});
    for (const Runtime::PlacedNode* node : share.nodes) {
      nodes.rows.push_back({provider, operator_name(*node), node->name});
    }
  }
  tables.emplace_back("Placement, as the session reports it", std::move(counts));
  tables.emplace_back("Nodes", std::move(nodes));
}

}  // namespace gpux::cli
