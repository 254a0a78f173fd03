#include "server/protocols/ollama/operations.h"

#include "server/protocols/openapi/generation.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::ollama {

using namespace openapi;

namespace {

Json digest_in_path() {
  return Json::array({{{"name", "id"},
                       {"in", "path"},
                       {"required", true},
                       {"schema", {{"type", "string"}, {"pattern", "^sha256[:-][0-9a-f]{64}$"}}}}});
}

}  // namespace

Json messages_schema(const ServedList&) {
  const Json text{{"type", "string"}}, arguments{{"type", Json::array({"object", "string"})}};
  const Json call = object_schema(
      {{"function", object_schema({{"name", text}, {"arguments", arguments}}, Json::array({"name", "arguments"}))}},
      Json::array({"function"}));
  const Json message =
      object_schema({{"role", {{"enum", Json::array({"system", "user", "assistant", "tool"})}}}, {"content", text}},
                    Json::array({"role", "content"}));
  const Json answered = object_schema({{"role", {{"const", "assistant"}}},
                                       {"content", text},
                                       {"thinking", or_null(text)},
                                       {"tool_calls", or_null(list(call, 0, max_texts))}},
                                      Json::array({"role", "content"}));
  const Json returned = object_schema({{"role", {{"const", "tool"}}}, {"content", text}, {"tool_name", or_null(text)}},
                                      Json::array({"role", "content"}));
  return or_null(list({{"anyOf", Json::array({message, answered, returned})}}, 0, max_texts));
}

Operation describe_chat(const ServedList&) {
  return generated_answer({{"type", "object"}, {"required", Json::array({"model", "created_at", "message", "done"})}},
                          "application/x-ndjson");
}

Operation describe_generate(const ServedList&) {
  return generated_answer({{"type", "object"}, {"required", Json::array({"model", "created_at", "response", "done"})}},
                          "application/x-ndjson");
}

Operation describe_embed(const ServedList&) {
  return json_answer({{"type", "object"}, {"required", Json::array({"model", "embeddings"})}});
}

Operation describe_embeddings(const ServedList&) {
  return json_answer({{"type", "object"}, {"required", Json::array({"embedding"})}});
}

Operation describe_change(const ServedList&) {
  return generated_answer({{"type", "object"}, {"required", Json::array({"status"})}}, "application/x-ndjson");
}

Operation describe_done(const ServedList&) {
  return {.content = Json::object()};
}

Operation describe_found(const ServedList&) {
  return {.content = Json::object(), .parameters = digest_in_path()};
}

Operation describe_kept(const ServedList&) {
  return {.request = Json::object(),
          .content = Json::object(),
          .request_description = "the bytes of the file, as application/octet-stream",
          .parameters = digest_in_path(),
          .failures = {{"201", {{"description", "kept"}}}}};
}

Operation describe_alive(const ServedList&) {
  return {.content = {{"text/plain", {{"schema", {{"type", "string"}}}}}}};
}

}  // namespace gpux::server::ollama
