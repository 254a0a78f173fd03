#include "server/protocols/own/operations.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/models/text_ability.h"
#include "server/protocols/openapi/values.h"
#include "server/protocols/tei/operations.h"

namespace gpux::server::own {
namespace {

using namespace openapi;

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

// An item, a list of them, or the bare value of a model's only input; of all models that it may be for.
Json request_schema(const ServedList& models) {
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
    if (is_able(*model, TextAbility::classify)) accepted.push_back(tei::classify_schema());
    const bool extracts = is_able(*model, TextAbility::find_entities) || is_able(*model, TextAbility::answer_questions);
    if (extracts) accepted.push_back(tei::extraction_schema(*model));
    if (model->has_image_tower()) accepted.push_back(tei::image_labels_schema());
  }
  return any_of(std::move(accepted));
}

Json answer_schema(const ServedList& models) {
  Json given = Json::array();
  for (const ServedModel* model : models) {
    // What texts are answered depends on the task, and may be JSON of its own.
    if (model->pipeline() || model->has_image_tower()) return Json::object();
    Json item = item_schema(model->signature().outputs, true);
    given.push_back({{"type", "array"}, {"items", item}});
    given.push_back(std::move(item));
  }
  return any_of(std::move(given));
}

}  // namespace

Operation describe_predict(const ServedList& models) {
  if (models.empty()) return {};
  Operation operation = json_operation(request_schema(models), answer_schema(models));
  const auto any = [&](const auto& is_such) { return std::ranges::any_of(models, is_such); };
  operation.takes_text = any([](const ServedModel* model) { return model->pipeline() != nullptr; });
  if (any([](const ServedModel* model) { return model->image_input() != nullptr; })) {
    operation.request_description =
        "Images: base64 or data URLs in place of numbers; or the body is a JPEG, PNG or WebP file (image/*), or a "
        "form with such files (multipart/form-data).";
  }
  if (any([](const ServedModel* model) {
        return is_able(*model, TextAbility::classify) || is_able(*model, TextAbility::find_entities) ||
               is_able(*model, TextAbility::answer_questions);
      })) {
    operation.failures["422"] = {{"description", "the texts do not fit"},
                                 {"content", json_content(reference("Error"))}};
  }
  return operation;
}

Operation describe_metrics(const ServedList&) {
  return {.content = {{"text/plain", {{"schema", {{"type", "string"}}}}},
                      {"application/json", {{"schema", {{"type", "object"}}}}}}};
}

Operation describe_page(const ServedList&) {
  return {.content = {{"text/html", {{"schema", {{"type", "string"}}}}}}};
}

}  // namespace gpux::server::own
