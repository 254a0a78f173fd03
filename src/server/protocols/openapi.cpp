#include "server/protocols/openapi.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/home.h"
#include "base/spelling.h"
#include "server/protocols/open_inference.h"
#include "server/protocols/text_requests.h"
#include "server/text_ability.h"
#include "tensor/integer_range.h"
#include "tensor/small_float.h"
#include "text/tokenizer.h"

namespace gpux::server {
namespace {

using Json = nlohmann::ordered_json;

Json reference(const std::string& schema) {
  return {{"$ref", "#/components/schemas/" + schema}};
}

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

Json any_of(Json alternatives) {
  return alternatives.size() == 1 ? std::move(alternatives.front()) : Json{{"anyOf", std::move(alternatives)}};
}

// As text-embeddings-inference has it.
Json classify_schema() {
  const Json text{{"type", "string"}}, flag{{"type", Json::array({"boolean", "null"})}};
  const auto list_of = [](Json items, std::size_t least, std::size_t most) -> Json {
    return {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}, {"maxItems", most}};
  };
  const Json one_or_pair = list_of(text, 1, 2);
  Json inputs = any_of(Json::array({text, one_or_pair, list_of(one_or_pair, 1, max_texts)}));
  const Json parameters{{"type", Json::array({"object", "null"})},
                        {"properties",
                         {{"function_to_apply", {{"enum", Json::array({"none", "softmax", "sigmoid", nullptr})}}},
                          {"top_k", {{"type", Json::array({"integer", "null"})}, {"minimum", 1}}}}},
                        {"additionalProperties", false}};
  return {{"type", "object"},
          {"properties",
           {{"inputs", std::move(inputs)},
            {"raw_scores", flag},
            {"truncate", flag},
            {"truncation_direction", {{"enum", Json::array({"Left", "Right", "left", "right", nullptr})}}},
            {"parameters", parameters}}},
          {"required", Json::array({"inputs"})},
          {"additionalProperties", false}};
}

// As huggingface_hub asks for labels of images.
Json image_labels_schema() {
  const Json text{{"type", "string"}, {"minLength", 1}};
  const Json list{{"type", "array"}, {"items", text}, {"minItems", 1}, {"maxItems", max_texts}};
  const Json parameters{{"type", "object"},
                        {"properties",
                         {{"candidate_labels", list},
                          {"hypothesis_template", {{"type", Json::array({"string", "null"})}}},
                          {"top_k", {{"type", Json::array({"integer", "null"})}, {"minimum", 1}}}}},
                        {"required", Json::array({"candidate_labels"})},
                        {"additionalProperties", false}};
  return {{"type", "object"},
          {"properties", {{"inputs", any_of(Json::array({text, list}))}, {"parameters", parameters}}},
          {"required", Json::array({"inputs", "parameters"})},
          {"additionalProperties", false}};
}

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

Json components(bool keys_are_set) {
  Json schemas;
  schemas["Detail"] = {{"type", "object"},
                       {"properties", {{"detail", {{"type", "string"}}}, {"error", {{"type", "string"}}}}}};
  schemas["Error"] = {{"type", "object"}, {"properties", {{"error", {{"type", "string"}}}}}};
  schemas["OpenAIError"] = {
      {"type", "object"},
      {"properties",
       {{"error",
         {{"type", "object"}, {"properties", {{"message", {{"type", "string"}}}, {"type", {{"type", "string"}}}}}}}}}};
  schemas["Tensor"] = tensor_schema();
  schemas["InferResponse"] = {{"type", "object"},
                              {"properties",
                               {{"model_name", {{"type", "string"}}},
                                {"model_version", {{"type", "string"}}},
                                {"id", {{"type", "string"}}},
                                {"outputs", {{"type", "array"}, {"items", reference("Tensor")}}}}},
                              {"required", Json::array({"model_name", "outputs"})}};
  Json components{{"schemas", std::move(schemas)}};
  if (keys_are_set) {
    components["securitySchemes"] = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
                                     {"key", {{"type", "apiKey"}, {"in", "header"}, {"name", "X-API-Key"}}}};
  }
  return components;
}

Json json_content(Json schema) {
  return {{"application/json", {{"schema", std::move(schema)}}}};
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

enum class Texts : std::uint8_t { no, openai, inference };

// What a model has to be able to for a route of texts; empty where the path is none.
std::optional<TextAbility> ability_for(std::string_view path) {
  static constexpr std::array<std::pair<std::string_view, TextAbility>, 8> routes{{
      {"/embeddings", TextAbility::embed},
      {"/embed", TextAbility::embed},
      {"/embed_all", TextAbility::embed_tokens},
      {"/embed_sparse", TextAbility::embed_sparse},
      {"/similarity", TextAbility::embed},
      {"/rerank", TextAbility::rank},
      {"/tokenize", TextAbility::tokenize},
      {"/decode", TextAbility::tokenize},
  }};
  if (path == "/") return TextAbility::any;
  const std::string_view last = path.substr(path.rfind('/'));
  const auto* const found = std::find_if(routes.begin(), routes.end(), [&](const auto& r) { return r.first == last; });
  return found == routes.end() ? std::nullopt : std::optional(found->second);
}

// Whether the model is one for the route of texts, or of texts and images.
bool serves(std::string_view path, const ServedModel& model) {
  if (path.ends_with("/embeddings") && is_able(model, TextAbility::embed_images)) return true;
  return is_able(model, ability_for(path).value_or(TextAbility::any));
}

// Whose routes for texts the path is among.
Texts texts_of(std::string_view path) {
  if (path.starts_with("/v1/")) return Texts::openai;
  return ability_for(path) ? Texts::inference : Texts::no;
}

Json failure(std::string_view path, const std::string& description) {
  const bool is_open_inference = path.starts_with("/v2") || texts_of(path) == Texts::inference;
  const char* schema = texts_of(path) == Texts::openai ? "OpenAIError" : is_open_inference ? "Error" : "Detail";
  return {{"description", description}, {"content", json_content(reference(schema))}};
}

Json object_schema(Json properties, Json required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json list_of(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", 1}, {"maxItems", max_texts}};
}

// Of which the members may be null, as if they were not there.
Json or_null(Json schema) {
  return {{"anyOf", Json::array({std::move(schema), {{"type", "null"}}})}};
}

// The largest vector that all of the models have.
std::size_t dimensions_of(const std::vector<const ServedModel*>& models) {
  std::size_t least = SIZE_MAX;
  for (const ServedModel* model : models) {
    if (model->encoder()) least = std::min(least, model->encoder()->dimension());
    if (model->image_encoder()) least = std::min(least, model->image_encoder()->dimension());
  }
  return least == SIZE_MAX ? 1 : least;
}

// The greatest token id that all of the models have.
std::size_t last_token_of(const std::vector<const ServedModel*>& models) {
  std::size_t least = std::size_t{1} << 32;
  for (const ServedModel* model : models) {
    if (const text::Tokenizer* tokenizer = tokenizer_of(*model)) least = std::min(least, tokenizer->vocabulary_size());
  }
  return std::max<std::size_t>(least, 1) - 1;
}

bool any_is(const std::vector<const ServedModel*>& models, TextAbility ability) {
  return std::ranges::any_of(models, [&](const ServedModel* model) { return is_able(*model, ability); });
}

// "input" of /v1/embeddings, of which `texts` is what texts are given as.
Json embeddings_input_schema(const Json& texts, const std::vector<const ServedModel*>& models) {
  if (!any_is(models, TextAbility::embed_images)) return texts;
  const Json image{{"type", "string"}, {"minLength", 1}, {"description", "JPEG, PNG or WebP: base64 or a data URL"}};
  Json parts = Json::array({object_schema({{"image", image}}, Json::array({"image"})),
                            object_schema({{"type", {{"const", "image_url"}}},
                                           {"image_url", object_schema({{"url", image}}, Json::array({"url"}))}},
                                          Json::array({"type", "image_url"}))});
  Json all = Json::array();
  if (any_is(models, TextAbility::embed)) {
    const Json text{{"type", "string"}, {"minLength", 1}};
    parts.push_back(object_schema({{"text", text}}, Json::array({"text"})));
    parts.push_back(object_schema({{"type", {{"const", "text"}}}, {"text", text}}, Json::array({"type", "text"})));
    all.push_back(texts);
    Json part_or_text = parts;
    part_or_text.push_back(text);
    all.push_back(list_of({{"anyOf", std::move(part_or_text)}}));
  } else {
    all.push_back(list_of({{"anyOf", parts}}));
  }
  for (Json& part : parts) all.push_back(std::move(part));
  return {{"anyOf", std::move(all)}};
}

// What a route for texts takes, and gives.
std::pair<Json, Json> text_schemas(std::string_view path, const std::vector<const ServedModel*>& models) {
  const Json text{{"type", "string"}}, flag = or_null({{"type", "boolean"}}), number{{"type", "number"}};
  const Json id{{"type", "integer"}, {"minimum", 0}, {"maximum", last_token_of(models)}};
  const auto text_or_tokens = [&](const Json& one) -> Json {
    const Json either{{"anyOf", Json::array({one, list_of(id)})}};
    return {{"anyOf", Json::array({one, list_of(id), list_of(either)})}};
  };
  const Json dimensions = or_null({{"type", "integer"}, {"minimum", 1}, {"maximum", dimensions_of(models)}});
  const Json vectors{{"type", "array"}, {"items", {{"type", "array"}, {"items", number}}}};
  const Json side = or_null({{"enum", Json::array({"left", "right", "Left", "Right"})}});
  if (path.starts_with("/v1/")) {
    Json filled = text;
    filled["minLength"] = 1;
    Json names = Json::array();
    for (const ServedModel* model : models) names.push_back(model->name());
    Json openai = object_schema({{"input", embeddings_input_schema(text_or_tokens(filled), models)},
                                 {"model", or_null({{"enum", std::move(names)}})},
                                 {"encoding_format", or_null({{"enum", Json::array({"float", "base64"})}})},
                                 {"dimensions", dimensions},
                                 {"user", or_null(text)}},
                                Json::array({"input"}));
    if (any_is(models, TextAbility::embed_images)) {
      openai["properties"]["modality"] = or_null({{"enum", Json::array({"text", "image"})}});
    }
    return {openai, {{"type", "object"}, {"required", Json::array({"object", "data", "model", "usage"})}}};
  }
  if (path.ends_with("/similarity")) {
    return {object_schema({{"inputs", object_schema({{"source_sentence", text}, {"sentences", list_of(text)}},
                                                    Json::array({"source_sentence", "sentences"}))},
                           {"parameters", or_null(object_schema({{"truncation_direction", side}}, Json::array()))}},
                          Json::array({"inputs"})),
            {{"type", "array"}, {"items", number}}};
  }
  if (path.ends_with("/tokenize")) {
    return {object_schema({{"inputs", {{"anyOf", Json::array({text, list_of(text)})}}}, {"add_special_tokens", flag}},
                          Json::array({"inputs"})),
            {{"type", "array"}, {"items", {{"type", "array"}, {"items", {{"type", "object"}}}}}}};
  }
  if (path.ends_with("/decode")) {
    const Json ids{{"type", "array"}, {"items", id}, {"minItems", 1}};
    return {object_schema({{"ids", {{"anyOf", Json::array({ids, list_of(ids)})}}}, {"skip_special_tokens", flag}},
                          Json::array({"ids"})),
            {{"type", "array"}, {"items", text}}};
  }
  if (path.ends_with("/embed_all")) {
    return {object_schema({{"inputs", text_or_tokens(text)}, {"truncation_direction", side}}, Json::array({"inputs"})),
            {{"type", "array"}, {"items", vectors}}};
  }
  const Json sparse{
      {"type", "array"},
      {"items", {{"type", "array"}, {"items", {{"type", "object"}, {"required", Json::array({"index", "value"})}}}}}};
  const Json embed_sparse =
      object_schema({{"inputs", text_or_tokens(text)}, {"truncation_direction", side}, {"return_tokens", flag}},
                    Json::array({"inputs"}));
  if (path.ends_with("/embed_sparse")) return {embed_sparse, sparse};
  const Json rank = object_schema(
      {{"query", text}, {"texts", list_of(text)}, {"raw_scores", flag}, {"return_text", flag}, {"truncate", flag}},
      Json::array({"query", "texts"}));
  const Json ranks{{"type", "array"}, {"items", {{"type", "object"}, {"required", Json::array({"index", "score"})}}}};
  if (path.ends_with("/rerank")) return {rank, ranks};
  const Json embed =
      object_schema({{"inputs", text_or_tokens(text)}, {"truncation_direction", side}, {"dimensions", dimensions}},
                    Json::array({"inputs"}));
  if (path != "/") return {embed, vectors};
  // Whatever the only model that can do something with texts does.
  const ServedModel& model = *models.front();
  if (is_able(model, TextAbility::embed)) {
    const auto [similarity, scores] = text_schemas("/similarity", models);
    return {{{"anyOf", Json::array({embed, similarity})}}, {{"anyOf", Json::array({vectors, scores})}}};
  }
  if (is_able(model, TextAbility::embed_sparse)) return {embed_sparse, sparse};
  if (is_able(model, TextAbility::rank)) return {rank, ranks};
  return {classify_schema(), {{"type", "array"}}};
}

// `models`: those that the route may be for.
Json operation(const RouteInfo& route, const std::vector<const ServedModel*>& models, bool keys_are_set) {
  const std::string_view path = route.path;
  Json found{{"summary", route.summary}};
  Json answer{{"type", "object"}};
  Json request;
  bool runs = false;
  if (path.ends_with("/predict") && !models.empty()) {
    runs = true;
    request = predict_request_schema(models);
    answer = predict_answer_schema(models);
  } else if (path.ends_with("/infer") && !models.empty()) {
    runs = true;
    request = infer_request_schema(models.front()->signature());
    answer = reference("InferResponse");
  } else if (texts_of(path) != Texts::no && route.method == "POST") {
    runs = true;
    std::tie(request, answer) = text_schemas(path, models);
  } else if (path.ends_with("/index")) {
    request = {{"type", "object"}, {"properties", {{"ready", {{"type", "boolean"}}}}}, {"additionalProperties", false}};
    answer = {{"type", "array"}, {"items", {{"type", "object"}}}};
  } else if (path.ends_with("load")) {
    request = {{"type", "object"},
               {"properties", {{"parameters", {{"type", "object"}, {"maxProperties", 0}}}}},
               {"additionalProperties", false}};
  }
  if (!request.is_null()) {
    found["requestBody"] = {{"required", runs}, {"content", json_content(std::move(request))}};
    const bool takes_images =
        std::ranges::any_of(models, [](const auto* model) { return model->image_input() != nullptr; });
    const bool takes_texts =
        std::ranges::any_of(models, [](const auto* model) { return model->pipeline() != nullptr; });
    const bool ranks = path == "/" && is_able(*models.front(), TextAbility::rank);
    const bool takes_one_text = (takes_texts && path.ends_with("/predict")) || path.ends_with("/embed") ||
                                path.ends_with("/embed_all") || path.ends_with("/embed_sparse") ||
                                path.ends_with("/tokenize") || (path == "/" && !ranks);
    if (takes_one_text) {
      found["requestBody"]["content"]["text/plain"] = {{"schema", {{"type", "string"}}}};
    }
    if (takes_images && path.ends_with("/predict")) {
      found["requestBody"]["description"] =
          "Images: base64 or data URLs in place of numbers; or the body is a JPEG, PNG or WebP file (image/*), or a "
          "form with such files (multipart/form-data).";
    }
  }
  Json success{{"description", "done"}};
  if (path == "/docs") {
    success["content"] = {{"text/html", {{"schema", {{"type", "string"}}}}}};
  } else if (path == "/metrics") {
    success["content"] = {{"text/plain", {{"schema", {{"type", "string"}}}}},
                          {"application/json", {{"schema", {{"type", "object"}}}}}};
  } else {
    success["content"] = json_content(std::move(answer));
    // Where binary tensors are asked for.
    if (path.ends_with("/infer")) success["content"]["application/octet-stream"] = Json::object();
  }
  Json answers{{"200", std::move(success)}};
  answers["400"] = failure(path, "the request does not fit; the message names the place");
  const bool classifies = path.ends_with("/predict") &&
                          std::any_of(models.begin(), models.end(),
                                      [](const auto* model) { return is_able(*model, TextAbility::classify); });
  if (classifies)
    answers["422"] = {{"description", "the texts do not fit"}, {"content", json_content(reference("Error"))}};
  if (texts_of(path) == Texts::inference) {
    answers["422"] = answers["400"];
    answers["424"] = failure(path, "the model fails");
  }
  if (route.needs_key && keys_are_set) {
    answers["401"] = failure(path, "a key is needed");
    found["security"] = Json::array({{{"bearer", Json::array()}}, {{"key", Json::array()}}});
  }
  for (const auto& [status, text] :
       {std::pair{"404", "no such model"}, {"413", "the body is too large"}, {"415", "an unknown coding"}}) {
    answers[status] = failure(path, text);
  }
  if (runs) {
    if (!path.starts_with("/v2")) answers["429"] = failure(path, "the queue is full");
    answers["504"] = failure(path, "the deadline passed");
  }
  if (runs || path.find("health") != std::string_view::npos || path.ends_with("/ready") || path.ends_with("load")) {
    answers["503"] = failure(path, "not ready");
  }
  found["responses"] = std::move(answers);
  return found;
}

std::string with(std::string path, std::string_view capture, std::string_view value) {
  const std::size_t place = path.find(capture);
  return place == std::string::npos ? path : path.replace(place, capture.size(), value);
}

// A path's segment: what is neither letter nor digit nor one of -._~ as %XX.
std::string escaped(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    }
  }
  return out;
}

Json document(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
              std::span<const RouteInfo> routes, bool keys_are_set) {
  std::vector<const ServedModel*> without_a_name;
  for (const auto& model : models) {
    if (default_model.empty() || model->name() == default_model) without_a_name.push_back(model.get());
  }
  Json paths = Json::object();
  for (const RouteInfo& route : routes) {
    const std::string method = lower(route.method);
    const bool asks_for_texts = texts_of(route.path) != Texts::no && route.method == "POST";
    if (asks_for_texts && route.path.find("{name}") == std::string_view::npos) {
      std::vector<const ServedModel*> with_texts;
      for (const ServedModel* model : without_a_name) {
        if (serves(route.path, *model)) with_texts.push_back(model);
      }
      if (!with_texts.empty()) paths[std::string(route.path)][method] = operation(route, with_texts, keys_are_set);
      continue;
    }
    if (route.path.find("{name}") == std::string_view::npos) {
      paths[std::string(route.path)][method] = operation(route, without_a_name, keys_are_set);
      continue;
    }
    // Each model has its own shapes, so each has its own paths.
    for (const auto& model : models) {
      if (asks_for_texts && !serves(route.path, *model)) continue;
      std::string path = with(std::string(route.path), "{name}", escaped(model->name()));
      path = with(path, "{version}", escaped(model->version()));
      paths[path][method] = operation(route, {model.get()}, keys_are_set);
    }
  }
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "gpux"}, {"version", gpux::version()}}},
          {"paths", std::move(paths)},
          {"components", components(keys_are_set)}};
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
}

}  // namespace

std::string openapi_json(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
                         std::span<const RouteInfo> routes, bool keys_are_set) {
  return document(models, default_model, routes, keys_are_set).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string openapi_page(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
                         std::span<const RouteInfo> routes, bool keys_are_set) {
  std::string page =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>gpux</title><style>"
      "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
      "code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#8882;padding:.6rem;overflow:auto}"
      "summary{cursor:pointer}b{display:inline-block;min-width:3.5rem}</style></head><body><h1>gpux</h1>"
      "<p>The same for programs: <a href=\"openapi.json\">openapi.json</a></p>";
  for (const auto& model : models) {
    page += "<h2>";
    append_escaped(page, model->name() + " " + model->version());
    page += "</h2><p>";
    append_escaped(page, to_line(model->runtime().verdict()));
    page += "</p><ul>";
    const auto values = [&](std::string_view kind, const std::vector<SignatureEntry>& entries) {
      for (const SignatureEntry& entry : entries) {
        page += "<li>";
        page += kind;
        page += " <code>";
        append_escaped(page, entry.name + ": " + to_string(entry.type));
        page += "</code> ";
        append_escaped(page, entry.description);
        page += "</li>";
      }
    };
    values("input", model->signature().inputs);
    values("output", model->signature().outputs);
    page += "</ul>";
  }
  page += "<h2>Routes</h2>";
  const Json all = document(models, default_model, routes, keys_are_set);
  for (const auto& [path, methods] : all["paths"].items()) {
    for (const auto& [method, what] : methods.items()) {
      page += "<details><summary><b>";
      for (const char c : method) page += static_cast<char>(c - 'a' + 'A');
      page += "</b> <code>";
      append_escaped(page, path);
      page += "</code> ";
      append_escaped(page, what["summary"].get<std::string>());
      if (what.contains("security")) page += " (key)";
      page += "</summary><pre>";
      append_escaped(page, what.dump(2, ' ', false, Json::error_handler_t::replace));
      page += "</pre></details>";
    }
  }
  return page + "</body></html>";
}

}  // namespace gpux::server
