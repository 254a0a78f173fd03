#include "server/protocols/openapi/tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "server/protocols/open_inference/messages.h"
#include "server/protocols/openapi/texts.h"
#include "server/text_ability.h"
#include "tensor/integer_range.h"
#include "tensor/small_float.h"

namespace gpux::server::openapi {
namespace {

// What rounds to the type's largest finite value still fits: up to half a step beyond it. As JSON writes float32's and
// bfloat16's bounds, in the fewest digits, they lie just below the half and so belong to what fits; float16's is exact.
Json float_schema(ElementType type) {
  Json number{{"type", "number"}};
  const auto within = [&](double bound, const char* lowest, const char* highest) {
    number[lowest] = -bound;
    number[highest] = bound;
  };
  if (type == ElementType::float32) {
    within(std::numeric_limits<float>::max() + std::ldexp(1.0, 103), "minimum", "maximum");
  } else if (type == ElementType::bfloat16) {
    within(largest_finite(type) + std::ldexp(1.0, 119), "minimum", "maximum");
  } else if (type == ElementType::float16) {
    within(largest_finite(type) + 16, "exclusiveMinimum", "exclusiveMaximum");
  }
  return {{"anyOf", Json::array({std::move(number), {{"enum", Json::array({"NaN", "Infinity", "-Infinity"})}}})}};
}

Json element_schema(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return {{"enum", Json::array({true, false, 0, 1})}};
    case ElementType::string:
      return {{"type", "string"}};
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::float32:
    case ElementType::float64:
      return float_schema(type);
    default:
      break;
  }
  if (const auto range = integer_range(type)) {
    return {{"type", "integer"}, {"minimum", range->lowest}, {"maximum", range->highest}};
  }
  return {{"type", "number"}};
}

// A value as /predict takes and gives it: lists in lists, in the declared sizes.
Json value_schema(const ValueType& type, bool is_answer) {
  if (type.kind != ValueKind::tensor) return {{"description", to_string(type)}};
  Json schema = element_schema(type.element);
  if (is_answer && schema.contains("anyOf")) schema = {{"type", Json::array({"number", "null"})}};
  if (is_answer && type.element == ElementType::boolean) schema = {{"type", "boolean"}};
  if (!type.dimensions) return {{"description", to_string(type)}};
  const std::vector<Dimension>& dimensions = *type.dimensions;
  for (std::size_t i = dimensions.size(); i-- > 0;) {
    schema = {{"type", "array"}, {"items", std::move(schema)}};
    const std::optional<std::int64_t>& size = dimensions[i].size;
    if (size && !is_answer) schema["minItems"] = schema["maxItems"] = *size;
  }
  // A text alone stands for a list of one.
  const bool may_be_alone = !is_answer && type.element == ElementType::string && dimensions.size() == 1 &&
                            dimensions.front().size.value_or(1) == 1;
  if (may_be_alone) return {{"anyOf", Json::array({{{"type", "string"}}, std::move(schema)})}};
  return schema;
}

Json item_schema(const std::vector<SignatureEntry>& entries, bool is_answer) {
  Json schema{{"type", "object"}};
  Json properties = Json::object();
  Json required = Json::array();
  for (const SignatureEntry& entry : entries) {
    Json value = value_schema(entry.type, is_answer);
    std::string description = to_string(entry.type);
    if (!entry.description.empty()) description = entry.description + " (" + description + ")";
    value["description"] = description;
    properties[entry.name] = std::move(value);
    if (is_answer || entry.required) required.push_back(entry.name);
  }
  schema["properties"] = std::move(properties);
  if (!required.empty()) schema["required"] = std::move(required);
  if (!is_answer) schema["additionalProperties"] = false;
  return schema;
}

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

}  // namespace

// An item, a list of them, or the bare value of a model's only input; of all models that it may be for.
Json predict_request_schema(const std::vector<const ServedModel*>& models) {
  Json accepted = Json::array();
  for (const ServedModel* model : models) {
    const auto& own = model->runtime().info().signature.inputs;
    Json item = item_schema(own, false);
    if (model->pipeline()) {
      const auto& texts = model->pipeline()->text_inputs();
      item = any_of(Json::array({item_schema(texts, false), std::move(item)}));
      if (std::ranges::count_if(texts, &SignatureEntry::required) == 1) {
        accepted.push_back(value_schema(texts.front().type, false));
      }
    } else if (own.size() == 1) {
      accepted.push_back(value_schema(own.front().type, false));
    }
    accepted.push_back({{"type", "array"}, {"items", item}});
    accepted.push_back(std::move(item));
    if (is_able(*model, TextAbility::classify)) accepted.push_back(classify_schema());
    if (model->image_tower() != nullptr) accepted.push_back(image_labels_schema());
  }
  return any_of(std::move(accepted));
}

Json predict_answer_schema(const std::vector<const ServedModel*>& models) {
  Json given = Json::array();
  for (const ServedModel* model : models) {
    // What texts are answered depends on the task, and may be JSON of its own.
    if (model->pipeline() || model->image_tower() != nullptr) return Json::object();
    Json item = item_schema(model->signature().outputs, true);
    given.push_back({{"type", "array"}, {"items", item}});
    given.push_back(std::move(item));
  }
  return any_of(std::move(given));
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

}  // namespace gpux::server::openapi
