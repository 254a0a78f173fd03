#include "server/protocols/open_inference/operations.h"

#include <array>
#include <utility>
#include <vector>

#include "server/protocols/open_inference/messages.h"

namespace gpux::server::open_inference_v2 {
namespace {

using namespace openapi;

// A tensor in JSON that is this input. That shape and data agree is beyond what a schema can say.
Json infer_input_schema(const SignatureEntry& entry) {
  Json input = tensor_schema();
  input["properties"]["name"] = {{"const", entry.name}};
  if (const auto datatype = datatype_of(entry.type.element); !datatype.empty()) {
    input["properties"]["datatype"] = {{"const", datatype}};
  }
  if (entry.type.dimensions) {
    Json& shape = input["properties"]["shape"];
    shape["minItems"] = shape["maxItems"] = entry.type.dimensions->size();
  }
  input["required"] = Json::array({"name", "shape", "datatype", "data"});
  return input;
}

// Of the one model that the path names.
Json inputs_schema(const ServedList& models) {
  const std::vector<SignatureEntry>& inputs = models.front()->signature().inputs;
  Json accepted = Json::array();
  for (const SignatureEntry& entry : inputs) accepted.push_back(infer_input_schema(entry));
  return {{"type", "array"}, {"items", any_of(std::move(accepted))}, {"minItems", 1}, {"maxItems", inputs.size()}};
}

Json outputs_schema(const ServedList& models) {
  Json names = Json::array();
  for (const SignatureEntry& entry : models.front()->signature().outputs) names.push_back(entry.name);
  return {{"type", "array"},
          {"items",
           {{"type", "object"},
            {"properties", {{"name", {{"enum", names}}}, {"parameters", {{"type", "object"}}}}},
            {"required", Json::array({"name"})},
            {"additionalProperties", false}}}};
}

Json id_schema(const ServedList&) {
  return {{"type", "string"}};
}

Json parameters_schema(const ServedList&) {
  return {{"type", "object"},
          {"properties",
           {{"priority", {{"type", "integer"}, {"minimum", 0}}},
            {"timeout", {{"type", "integer"}, {"minimum", 0}, {"description", "microseconds"}}},
            {"binary_data_output", {{"type", "boolean"}}}}}};
}

constexpr std::array<Field, 5> infer_table{{
    {"id", FieldKind::text, FieldUse::optional, id_schema},
    {"parameters", FieldKind::object, FieldUse::optional, parameters_schema},
    {"inputs", FieldKind::other, FieldUse::required, inputs_schema},
    {"outputs", FieldKind::other, FieldUse::optional, outputs_schema},
    ignored_field("model_name"),
}};

constexpr std::array<Field, 3> region_table{{
    {"key", FieldKind::text, FieldUse::required},
    {.name = "offset", .kind = FieldKind::whole, .maximum = INT64_MAX},
    {.name = "byte_size", .kind = FieldKind::whole, .use = FieldUse::required, .maximum = INT64_MAX},
}};

}  // namespace

std::span<const Field> infer_fields() {
  return infer_table;
}

std::span<const Field> region_fields() {
  return region_table;
}

Json tensor_schema() {
  return {{"type", "object"},
          {"properties",
           {{"name", {{"type", "string"}}},
            {"shape", {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}}},
            {"datatype",
             {{"enum", Json::array({"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
                                    "FP16", "BF16", "FP32", "FP64", "BYTES"})}}},
            {"parameters", {{"type", "object"}}},
            {"data", {{"type", "array"}}}}},
          {"required", Json::array({"name", "shape", "datatype"})},
          {"additionalProperties", false}};
}

Json answer_schema() {
  return {{"type", "object"},
          {"properties",
           {{"model_name", {{"type", "string"}}},
            {"model_version", {{"type", "string"}}},
            {"id", {{"type", "string"}}},
            {"outputs", {{"type", "array"}, {"items", reference("Tensor")}}}}},
          {"required", Json::array({"model_name", "outputs"})}};
}

Operation describe_infer(const ServedList&) {
  Operation operation = json_answer(reference("InferResponse"));
  operation.content["application/octet-stream"] = Json::object();  // where binary tensors are asked for
  return operation;
}

Operation describe_index(const ServedList&) {
  return json_operation(
      {{"type", "object"}, {"properties", {{"ready", {{"type", "boolean"}}}}}, {"additionalProperties", false}},
      {{"type", "array"}, {"items", {{"type", "object"}}}});
}

Operation describe_registration(const ServedList&) {
  return json_answer({{"type", "object"}});
}

Operation describe_regions(const ServedList&) {
  return json_answer(
      {{"type", "array"},
       {"items", {{"type", "object"}, {"required", Json::array({"name", "key", "offset", "byte_size"})}}}});
}

Operation describe_loading(const ServedList&) {
  return json_operation({{"type", "object"},
                         {"properties", {{"parameters", {{"type", "object"}, {"maxProperties", 0}}}}},
                         {"additionalProperties", false}},
                        {{"type", "object"}});
}

}  // namespace gpux::server::open_inference_v2
