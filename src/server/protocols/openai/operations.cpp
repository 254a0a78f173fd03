#include "server/protocols/openai/operations.h"

#include "server/protocols/openapi/generation.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::openai {

using namespace openapi;

Json messages_schema(const ServedList&) {
  const Json text{{"type", "string"}}, arguments{{"type", Json::array({"string", "object"})}};
  const Json part = object_schema({{"type", {{"const", "text"}}}, {"text", text}}, Json::array({"type", "text"}));
  const Json content{{"anyOf", Json::array({text, list(part, 1, max_texts)})}};
  const Json call = object_schema(
      {{"id", text},
       {"type", {{"const", "function"}}},
       {"function", object_schema({{"name", text}, {"arguments", arguments}}, Json::array({"name", "arguments"}))}},
      Json::array({"id", "type", "function"}));
  const Json said = object_schema(
      {{"role", {{"enum", Json::array({"system", "developer", "user"})}}}, {"content", content}, {"name", text}},
      Json::array({"role", "content"}));
  const Json answered = object_schema({{"role", {{"const", "assistant"}}},
                                       {"content", or_null(content)},
                                       {"name", text},
                                       {"refusal", or_null(text)},
                                       {"reasoning_content", or_null(text)},
                                       {"tool_calls", or_null(list(call, 0, max_texts))}},
                                      Json::array({"role"}));
  const Json returned =
      object_schema({{"role", {{"const", "tool"}}}, {"content", content}, {"name", text}, {"tool_call_id", text}},
                    Json::array({"role", "content", "tool_call_id"}));
  return list({{"anyOf", Json::array({said, answered, returned})}}, 1, max_texts);
}

Operation describe_embeddings(const ServedList&) {
  return json_answer({{"type", "object"}, {"required", Json::array({"object", "data", "model", "usage"})}});
}

Operation describe_generation(const ServedList&) {
  return generated_answer(
      {{"type", "object"}, {"required", Json::array({"id", "object", "created", "model", "choices", "usage"})}},
      "text/event-stream");
}

}  // namespace gpux::server::openai
