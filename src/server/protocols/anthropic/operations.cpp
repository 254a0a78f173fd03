#include "server/protocols/anthropic/operations.h"

#include "server/protocols/openapi/generation.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::anthropic {

using namespace openapi;

namespace {

const Json text{{"type", "string"}}, flag{{"type", "boolean"}}, any_object{{"type", "object"}};

Json block(const char* type, Json properties, Json required) {
  Json all{{"type", {{"const", type}}}};
  all.update(properties);
  required.push_back("type");
  return object_schema(std::move(all), std::move(required));
}

Json text_block() {
  return block("text", {{"text", text}, {"cache_control", or_null(any_object)}}, Json::array({"text"}));
}

Json texts() {
  return any_of(Json::array({text, list(text_block(), 0, max_texts)}));
}

Json message(const char* role, Json blocks) {
  const Json content = any_of(Json::array({text, list(any_of(std::move(blocks)), 0, max_texts)}));
  return object_schema({{"role", {{"const", role}}}, {"content", content}}, Json::array({"role", "content"}));
}

}  // namespace

Json messages_schema(const ServedList&) {
  const Json result =
      block("tool_result", {{"tool_use_id", text}, {"content", or_null(texts())}, {"is_error", or_null(flag)}},
            Json::array({"tool_use_id"}));
  const Json input{{"type", Json::array({"object", "string"})}};
  const Json use =
      block("tool_use", {{"id", text}, {"name", text}, {"input", input}}, Json::array({"id", "name", "input"}));
  const Json thinking =
      block("thinking", {{"thinking", text}, {"signature", or_null(text)}}, Json::array({"thinking"}));
  return list(any_of(Json::array({message("user", Json::array({text_block(), result})),
                                  message("assistant", Json::array({text_block(), thinking, use}))})),
              1, max_texts);
}

Json system_schema(const ServedList&) {
  return or_null(texts());
}

Json tools_schema(const ServedList&) {
  const Json name{{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]{1,64}$"}};
  const Json tool = object_schema({{"type", or_null({{"const", "custom"}})},
                                   {"name", name},
                                   {"description", or_null(text)},
                                   {"input_schema", any_object},
                                   {"strict", or_null(flag)},
                                   {"cache_control", or_null(any_object)}},
                                  Json::array({"name", "input_schema"}));
  return or_null({{"type", "array"}, {"items", tool}});
}

Json tool_choice_schema(const ServedList&) {
  return or_null(object_schema({{"type", {{"enum", Json::array({"auto", "any", "tool", "none"})}}},
                                {"name", or_null(text)},
                                {"disable_parallel_tool_use", or_null(flag)}},
                               Json::array({"type"})));
}

Json thinking_schema(const ServedList&) {
  return or_null(object_schema({{"type", {{"enum", Json::array({"enabled", "disabled", "adaptive"})}}},
                                {"budget_tokens", or_null({{"type", "integer"}})},
                                {"display", or_null({{"enum", Json::array({"summarized", "omitted"})}})}},
                               Json::array({"type"})));
}

Json stop_schema(const ServedList&) {
  constexpr std::size_t max_stops = 64, max_stop_bytes = 1024 / 4;
  return or_null(list({{"type", "string"}, {"minLength", 1}, {"maxLength", max_stop_bytes}}, 0, max_stops));
}

Operation describe_message(const ServedList&) {
  return generated_answer(
      {{"type", "object"},
       {"required", Json::array({"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"})}},
      "text/event-stream");
}

Operation describe_token_count(const ServedList&) {
  return json_answer({{"type", "object"}, {"required", Json::array({"input_tokens"})}});
}

}  // namespace gpux::server::anthropic
