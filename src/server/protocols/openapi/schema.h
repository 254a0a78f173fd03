#pragma once

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

/// Parts of JSON schemas that the OpenAPI document is made of.
namespace gpux::server::openapi {

using Json = nlohmann::ordered_json;

/// {"$ref"} to a schema of the document's components.
inline Json reference(const std::string& schema) {
  return {{"$ref", "#/components/schemas/" + schema}};
}

/// Schema of any of the alternatives; of a single one, that one itself.
inline Json any_of(Json alternatives) {
  return alternatives.size() == 1 ? std::move(alternatives.front()) : Json{{"anyOf", std::move(alternatives)}};
}

/// An object that has no others than these.
inline Json object_schema(Json properties, Json required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

/// A member that may be null, as if it were not there.
inline Json or_null(Json schema) {
  return {{"anyOf", Json::array({std::move(schema), {{"type", "null"}}})}};
}

/// The `content` object of a JSON request or response: the schema by media type.
inline Json json_content(Json schema) {
  return {{"application/json", {{"schema", std::move(schema)}}}};
}

}  // namespace gpux::server::openapi
