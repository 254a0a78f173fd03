#include "server/protocols/openapi/fields.h"

#include <string>
#include <utility>

namespace gpux::server::openapi {
namespace {

// What asks for nothing: null, what is empty, and the neutral value.
Json refused_schema(const Field& field) {
  Json accepted = Json::array({nullptr, "", Json::array(), Json::object()});
  if (!field.neutral.empty()) accepted.push_back(Json::parse(field.neutral));
  return {{"enum", std::move(accepted)}, {"description", field.refusal}};
}

Json schema_of_kind(const Field& field) {
  switch (field.kind) {
    case FieldKind::text:
      return {{"type", "string"}};
    case FieldKind::flag:
      return {{"type", "boolean"}};
    case FieldKind::count:
      return {{"type", "integer"}, {"minimum", 1}, {"maximum", INT32_MAX}};
    case FieldKind::whole:
      return {{"type", "integer"}, {"minimum", 0}, {"maximum", field.maximum}};
    case FieldKind::number:
      return {{"type", "number"}};
    case FieldKind::choice:
      return {{"enum", field.choices}};
    case FieldKind::texts: {
      const Json text{{"type", "string"}};
      return {{"anyOf", Json::array({text, {{"type", "array"}, {"items", text}}})}};
    }
    case FieldKind::object:
      return {{"type", "object"}};
    case FieldKind::other:
    case FieldKind::ignored:
    case FieldKind::refused:
      break;
  }
  return Json::object();
}

Json schema_of(const Field& field, const ServedList& models) {
  if (field.schema != nullptr) return field.schema(models);
  Json schema = schema_of_kind(field);
  if (field.kind == FieldKind::refused) return refused_schema(field);
  if (field.kind == FieldKind::ignored) return {{"description", "accepted, and changes no answer"}};
  return field.use == FieldUse::required ? std::move(schema) : or_null(std::move(schema));
}

}  // namespace

Json object_schema(std::span<const Field> fields, const ServedList& models) {
  Json properties = Json::object(), required = Json::array();
  for (const Field& field : fields) {
    Json schema = schema_of(field, models);
    if (schema.is_null()) continue;
    properties[std::string(field.name)] = std::move(schema);
    if (field.use == FieldUse::required) required.push_back(field.name);
  }
  // Others are accepted, too, unless the server is strict.
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

Json only_empty_text(const ServedList&) {
  return or_null({{"const", ""}});
}

Json only_empty_list(const ServedList&) {
  return or_null({{"type", "array"}, {"maxItems", 0}});
}

Json only_empty_object(const ServedList&) {
  return or_null({{"type", "object"}, {"maxProperties", 0}});
}

Json only_false(const ServedList&) {
  return or_null({{"const", false}});
}

Json only_text(const ServedList&) {
  const Json text{{"const", "text"}};
  return or_null({{"anyOf", Json::array({text, {{"type", "array"}, {"items", text}}})}});
}

}  // namespace gpux::server::openapi
