#include "server/protocols/open_inference/operations.h"

#include <utility>

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

// A call of infer for this model, with inputs that it has.
Json infer_request_schema(const Signature& signature) {
  Json inputs = Json::array();
  for (const SignatureEntry& entry : signature.inputs) inputs.push_back(infer_input_schema(entry));
  Json input = any_of(std::move(inputs));
  Json outputs = Json::array();
  for (const SignatureEntry& entry : signature.outputs) outputs.push_back(entry.name);
  return {{"type", "object"},
          {"properties",
           {{"id", {{"type", "string"}}},
            {"parameters",
             {{"type", "object"},
              {"properties",
               {{"priority", {{"type", "integer"}, {"minimum", 0}}},
                {"timeout", {{"type", "integer"}, {"minimum", 0}, {"description", "microseconds"}}},
                {"binary_data_output", {{"type", "boolean"}}}}}}},
            {"inputs",
             {{"type", "array"}, {"items", std::move(input)}, {"minItems", 1}, {"maxItems", signature.inputs.size()}}},
            {"outputs",
             {{"type", "array"},
              {"items",
               {{"type", "object"},
                {"properties", {{"name", {{"enum", outputs}}}, {"parameters", {{"type", "object"}}}}},
                {"required", Json::array({"name"})},
                {"additionalProperties", false}}}}}}},
          {"required", Json::array({"inputs"})},
          {"additionalProperties", false}};
}

}  // namespace

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

Operation describe_infer(const ServedList& models) {
  Operation operation = json_operation(infer_request_schema(models.front()->signature()), reference("InferResponse"));
  operation.content["application/octet-stream"] = Json::object();  // where binary tensors are asked for
  return operation;
}

Operation describe_index(const ServedList&) {
  return json_operation(
      {{"type", "object"}, {"properties", {{"ready", {{"type", "boolean"}}}}}, {"additionalProperties", false}},
      {{"type", "array"}, {"items", {{"type", "object"}}}});
}

Operation describe_loading(const ServedList&) {
  return json_operation({{"type", "object"},
                         {"properties", {{"parameters", {{"type", "object"}, {"maxProperties", 0}}}}},
                         {"additionalProperties", false}},
                        {{"type", "object"}});
}

}  // namespace gpux::server::open_inference_v2
