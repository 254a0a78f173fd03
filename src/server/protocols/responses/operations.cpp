#include "server/protocols/responses/operations.h"

#include "server/protocols/openapi/generation.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::responses {

using namespace openapi;

namespace {

const Json text{{"type", "string"}}, flag{{"type", "boolean"}};

Json typed(const char* type, Json properties, Json required) {
  Json all{{"type", {{"const", type}}}, {"id", or_null(text)}, {"status", or_null(text)}};
  all.update(properties);
  required.push_back("type");
  return object_schema(std::move(all), std::move(required));
}

Json part_schema() {
  const auto part = [](const char* type, const char* member) {
    return object_schema({{"type", {{"const", type}}}, {member, text}}, Json::array({"type", member}));
  };
  return any_of(Json::array({part("input_text", "text"), part("output_text", "text"), part("refusal", "refusal")}));
}

Json response_schema() {
  return {{"type", "object"},
          {"required", Json::array({"id", "object", "created_at", "status", "model", "output", "error",
                                    "incomplete_details", "usage"})}};
}

// What is no path at all, the transport refuses, in its own form.
Operation answer_of_kept(Json answer) {
  Operation operation = json_answer(std::move(answer));
  const Json refusal = any_of(Json::array({reference("OpenAIError"), reference("Error")}));
  operation.failures = {
      {"400",
       {{"description", "the request does not fit; the message names the place"}, {"content", json_content(refusal)}}}};
  return operation;
}

}  // namespace

Json input_schema(const ServedList&) {
  const Json content{{"anyOf", Json::array({text, list(part_schema(), 0, max_texts)})}};
  const Json role{{"enum", Json::array({"user", "assistant", "system", "developer"})}};
  Json message = typed("message", {{"role", role}, {"content", content}}, Json::array({"role", "content"}));
  message["required"] = Json::array({"role", "content"});
  const Json call = typed("function_call", {{"call_id", text}, {"name", text}, {"arguments", text}},
                          Json::array({"call_id", "name", "arguments"}));
  const Json output = typed("function_call_output", {{"call_id", text}, {"output", content}, {"name", or_null(text)}},
                            Json::array({"call_id", "output"}));
  const auto thoughts = [](const char* type) {
    return or_null(list(object_schema({{"type", {{"const", type}}}, {"text", text}}, Json::array({"type", "text"})), 0,
                        max_texts));
  };
  const Json reasoning = typed(
      "reasoning", {{"summary", thoughts("summary_text")}, {"content", thoughts("reasoning_text")}}, Json::array());
  const Json reference =
      object_schema({{"type", {{"const", "item_reference"}}}, {"id", text}}, Json::array({"type", "id"}));
  const Json item = any_of(Json::array({message, call, output, reasoning, reference}));
  return any_of(Json::array({text, list(item, 0, max_texts)}));
}

Json tools_schema(const ServedList&) {
  const Json name{{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]{1,64}$"}};
  const Json tool = object_schema({{"type", {{"const", "function"}}},
                                   {"name", name},
                                   {"description", or_null(text)},
                                   {"parameters", or_null({{"type", "object"}})},
                                   {"strict", or_null(flag)}},
                                  Json::array({"type", "name"}));
  const Json group = object_schema({{"type", {{"const", "namespace"}}},
                                    {"name", text},
                                    {"description", or_null(text)},
                                    {"tools", {{"type", "array"}, {"items", tool}}}},
                                   Json::array({"type", "name", "tools"}));
  return or_null({{"type", "array"}, {"items", any_of(Json::array({tool, group}))}});
}

Json tool_choice_schema(const ServedList&) {
  const Json function =
      object_schema({{"type", {{"const", "function"}}}, {"name", text}}, Json::array({"type", "name"}));
  const Json allowed = object_schema({{"type", {{"const", "allowed_tools"}}},
                                      {"mode", or_null({{"enum", Json::array({"auto", "required"})}})},
                                      {"tools", {{"type", "array"}, {"items", function}, {"minItems", 1}}}},
                                     Json::array({"type", "tools"}));
  return or_null(any_of(Json::array({{{"enum", Json::array({"none", "auto", "required"})}}, function, allowed})));
}

Operation describe_create(const ServedList&) {
  return generated_answer(response_schema(), "text/event-stream");
}

Operation describe_response(const ServedList&) {
  return answer_of_kept(response_schema());
}

Operation describe_deletion(const ServedList&) {
  return answer_of_kept({{"type", "object"}, {"required", Json::array({"id", "object", "deleted"})}});
}

Operation describe_items(const ServedList&) {
  const auto parameter = [](const char* name, Json schema) {
    return Json{{"name", name}, {"in", "query"}, {"schema", std::move(schema)}};
  };
  Operation operation = answer_of_kept({{"type", "object"}, {"required", Json::array({"object", "data", "has_more"})}});
  operation.parameters =
      Json::array({parameter("limit", {{"type", "integer"}, {"minimum", 1}, {"maximum", max_listed_items}}),
                   parameter("order", {{"enum", Json::array({"asc", "desc"})}}), parameter("after", text)});
  return operation;
}

Operation describe_token_count(const ServedList&) {
  return json_answer({{"type", "object"}, {"required", Json::array({"object", "input_tokens"})}});
}

}  // namespace gpux::server::responses
