#include "server/protocols/ollama/operations.h"

#include "server/protocols/openapi/generation.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::ollama {
namespace {

using namespace openapi;

const Json text{{"type", "string"}}, flag{{"type", "boolean"}}, any_object{{"type", "object"}};

Json ollama_settings(const ServedList& models) {
  Json options = sampling();
  add(options, {{"num_predict", whole_from(-2, INT32_MAX)},
                {"num_ctx", whole_from(1, INT32_MAX)},
                {"repeat_penalty", or_null({{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 100}})},
                {"repeat_last_n", or_null({{"const", -1}})}});
  return {{"model", model_names(models)},
          {"stream", or_null(flag)},
          {"options", or_null(object_schema(std::move(options), Json::array()))},
          {"format", or_null({{"anyOf", Json::array({{{"const", "json"}}, any_object})}})},
          {"think", or_null({{"anyOf", Json::array({flag, {{"enum", Json::array({"low", "medium", "high"})}}})}})},
          {"truncate", or_null({{"const", false}})},
          {"shift", or_null({{"const", false}})},
          {"keep_alive", or_null({{"type", Json::array({"string", "number"})}})}};
}

}  // namespace

Operation describe_chat(const ServedList& models) {
  const Json call = object_schema(
      {{"function", object_schema({{"name", text}, {"arguments", any_object}}, Json::array({"name", "arguments"}))}},
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
  Json properties = ollama_settings(models);
  add(properties, {{"messages", or_null(list({{"anyOf", Json::array({message, answered, returned})}}, 0, max_texts))},
                   {"tools", or_null(tools())}});
  return generation(object_schema(std::move(properties), Json::array()),
                    {{"type", "object"}, {"required", Json::array({"model", "created_at", "message", "done"})}},
                    "application/x-ndjson");
}

Operation describe_generate(const ServedList& models) {
  Json properties = ollama_settings(models);
  add(properties, {{"prompt", or_null(text)}, {"system", or_null(text)}, {"raw", or_null(flag)}});
  return generation(object_schema(std::move(properties), Json::array()),
                    {{"type", "object"}, {"required", Json::array({"model", "created_at", "response", "done"})}},
                    "application/x-ndjson");
}

Operation describe_embed(const ServedList& models) {
  const Json input{{"anyOf", Json::array({text, list(text, 1, max_texts)})}};
  return json_operation(object_schema({{"model", model_names(models)},
                                       {"input", input},
                                       {"truncate", or_null(flag)},
                                       {"dimensions", whole_from(1, INT32_MAX)}},
                                      Json::array({"input"})),
                        {{"type", "object"}, {"required", Json::array({"model", "embeddings"})}});
}

Operation describe_embeddings(const ServedList& models) {
  return json_operation(object_schema({{"model", model_names(models)}, {"prompt", text}}, Json::array({"prompt"})),
                        {{"type", "object"}, {"required", Json::array({"embedding"})}});
}

Operation describe_show(const ServedList& models) {
  return json_operation(object_schema({{"model", model_names(models)}, {"verbose", or_null(flag)}}, Json::array()),
                        any_object);
}

Operation describe_alive(const ServedList&) {
  return {.content = {{"text/plain", {{"schema", text}}}}};
}

}  // namespace gpux::server::ollama
