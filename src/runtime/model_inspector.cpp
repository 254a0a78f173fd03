#include "gpux/model_inspector.h"

#include <nlohmann/json.hpp>

#include "onnx/model_file.h"

namespace gpux {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const ValueType& type) {
  Json json;
  json["type"] = to_string(type.kind == ValueKind::tensor ? type.element : ElementType::undefined);
  if (type.kind != ValueKind::tensor) json["type"] = to_string(type);
  if (type.kind != ValueKind::tensor || !type.dimensions) {
    json["shape"] = nullptr;
    return json;
  }
  json["shape"] = Json::array();
  for (const Dimension& dimension : *type.dimensions) {
    if (dimension.size) {
      json["shape"].push_back(*dimension.size);
    } else if (!dimension.name.empty()) {
      json["shape"].push_back(dimension.name);
    } else {
      json["shape"].push_back(nullptr);
    }
  }
  return json;
}

Json to_json(const std::vector<SignatureEntry>& entries) {
  Json list = Json::array();
  for (const SignatureEntry& entry : entries) {
    Json json;
    json["name"] = entry.name;
    json.update(to_json(entry.type));
    json["required"] = entry.required;
    json["description"] = entry.description;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

ModelInfo ModelInspector::inspect(const std::filesystem::path& model) {
  return onnx::inspect(model);
}

std::string ModelInspector::to_json(const ModelInfo& info) {
  Json json;
  json["name"] = info.name;
  json["version"] = info.version;
  json["format"] = info.format;
  json["path"] = info.path.string();
  json["size_bytes"] = info.size_bytes;
  json["size_mb"] = static_cast<double>(info.size_bytes) / 1e6;
  json["inputs"] = gpux::to_json(info.signature.inputs);
  json["outputs"] = gpux::to_json(info.signature.outputs);
  json["ir_version"] = info.ir_version;
  json["opsets"] = Json::object();
  for (const auto& [domain, version] : info.opsets) json["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
  json["producer"] = {{"name", info.producer_name}, {"version", info.producer_version}};
  json["domain"] = info.domain;
  json["graph_name"] = info.graph_name;
  json["description"] = info.description;
  json["model_version"] = info.model_version;
  json["metadata"] = Json::object();
  for (const auto& [key, value] : info.metadata) json["metadata"][key] = value;
  json["operators"] = Json::object();
  for (const auto& [name, count] : info.operators) json["operators"][name] = count;
  json["node_count"] = info.node_count;
  json["parameter_count"] = info.parameter_count;
  json["parameter_bytes"] = info.parameter_bytes;
  json["parameter_types"] = Json::object();
  for (const auto& [name, count] : info.parameter_types) json["parameter_types"][name] = count;
  json["external_files"] = Json::array();
  for (const ExternalFile& file : info.external_files) {
    json["external_files"].push_back({{"location", file.location}, {"bytes", file.bytes}, {"present", file.present}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpux
