#include "server/protocols/openapi/generation.h"

#include <algorithm>
#include <array>

#include "server/protocols/generation_fields.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/text_inputs.h"
#include "server/protocols/tool_requests.h"

namespace gpux::server::openapi {
namespace {

const Json text{{"type", "string"}}, flag{{"type", "boolean"}}, any_object{{"type", "object"}};

Json number_from(double low, double high) {
  return or_null({{"type", "number"}, {"minimum", low}, {"maximum", high}});
}

Json share() {
  return or_null({{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}});
}

Json whole_from(std::int64_t low, std::int64_t high) {
  return or_null({{"type", "integer"}, {"minimum", low}, {"maximum", high}});
}

Json list(Json items, std::size_t least, std::size_t most) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}, {"maxItems", most}};
}

// What the protocols write alike.
Json sampling() {
  constexpr std::size_t max_stops = 64, max_stop_bytes = 1024 / 4;
  const Json stop{{"type", "string"}, {"minLength", 1}, {"maxLength", max_stop_bytes}};
  return {{"temperature", number_from(0, 100)},
          {"top_p", share()},
          {"min_p", number_from(0, 1)},
          {"typical_p", share()},
          {"top_k", whole_from(-1, INT32_MAX)},
          {"presence_penalty", number_from(-2, 2)},
          {"frequency_penalty", number_from(-2, 2)},
          {"seed", or_null({{"type", "integer"}, {"minimum", INT64_MIN}, {"maximum", INT64_MAX}})},
          {"stop", or_null({{"anyOf", Json::array({stop, list(stop, 0, max_stops)})}})}};
}

void add(Json& properties, Json more) {
  for (auto& [name, schema] : more.items()) properties[name] = schema;
}

// Of OpenAI's routes. What no schema can say, as which of the members exclude each other, is left out.
Json openai_settings(const std::vector<const ServedModel*>& models) {
  Json properties = sampling();
  constexpr std::size_t max_stop_tokens = 1024;
  const Json bias{{"type", "object"},
                  {"additionalProperties", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}}};
  add(properties, {{"model", model_names(models)},
                   {"n", whole_from(1, static_cast<std::int64_t>(max_answers))},
                   {"max_tokens", whole_from(1, INT32_MAX)},
                   {"min_tokens", whole_from(0, INT32_MAX)},
                   {"repetition_penalty", or_null({{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 100}})},
                   {"logit_bias", or_null(bias)},
                   {"stop_token_ids", or_null(list(token_schema(models), 0, max_stop_tokens))},
                   {"ignore_eos", or_null(flag)},
                   {"skip_special_tokens", or_null(flag)},
                   {"cache_salt", or_null(text)},
                   {"stream", or_null(flag)},
                   {"stream_options", or_null(any_object)},
                   {"response_format", or_null(any_object)},
                   {"guided_json", or_null(any_object)},
                   {"guided_regex", or_null(text)},
                   {"guided_choice", or_null(list(text, 1, 10'000))},
                   {"guided_grammar", or_null(text)},
                   {"user", or_null(text)},
                   {"metadata", or_null(any_object)},
                   {"store", or_null({{"const", false}})},
                   {"service_tier", or_null({{"enum", Json::array({"auto", "default"})}})},
                   {"safety_identifier", or_null(text)},
                   {"prompt_cache_key", or_null(text)}});
  return properties;
}

Json function_schema() {
  const Json name{{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]{1,64}$"}};
  return object_schema(
      {{"name", name}, {"description", or_null(text)}, {"parameters", or_null(any_object)}, {"strict", or_null(flag)}},
      Json::array({"name"}));
}

Json tools() {
  return list(object_schema({{"type", {{"const", "function"}}}, {"function", function_schema()}},
                            Json::array({"type", "function"})),
              0, max_tools);
}

Json openai_messages() {
  const Json part = object_schema({{"type", {{"const", "text"}}}, {"text", text}}, Json::array({"type", "text"}));
  const Json content{{"anyOf", Json::array({text, list(part, 1, max_texts)})}};
  const Json call = object_schema(
      {{"id", text},
       {"type", {{"const", "function"}}},
       {"function", object_schema({{"name", text}, {"arguments", text}}, Json::array({"name", "arguments"}))}},
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

std::pair<Json, Json> chat_schemas(const std::vector<const ServedModel*>& models) {
  Json properties{{"messages", openai_messages()}};
  add(properties, openai_settings(models));
  add(properties,
      {{"max_completion_tokens", whole_from(1, INT32_MAX)},
       {"logprobs", or_null(flag)},
       {"top_logprobs", whole_from(0, 20)},
       {"tools", or_null(tools())},
       {"tool_choice",
        or_null({{"anyOf", Json::array({{{"enum", Json::array({"none", "auto", "required"})}}, any_object})}})},
       {"parallel_tool_calls", or_null(flag)},
       {"chat_template_kwargs", or_null(any_object)},
       {"add_generation_prompt", or_null(flag)}});
  return {object_schema(std::move(properties), Json::array({"messages"})),
          {{"type", "object"}, {"required", Json::array({"id", "object", "created", "model", "choices", "usage"})}}};
}

std::pair<Json, Json> completion_schemas(const std::vector<const ServedModel*>& models) {
  const Json tokens = list(token_schema(models), 1, max_texts);
  Json properties{
      {"prompt",
       {{"anyOf", Json::array({text, tokens, list({{"anyOf", Json::array({text, tokens})}}, 1, max_texts)})}}}};
  add(properties, openai_settings(models));
  add(properties, {{"logprobs", whole_from(0, 20)}, {"add_special_tokens", or_null(flag)}});
  return {object_schema(std::move(properties), Json::array({"prompt"})),
          {{"type", "object"}, {"required", Json::array({"id", "object", "created", "model", "choices", "usage"})}}};
}

Json ollama_settings(const std::vector<const ServedModel*>& models) {
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

std::pair<Json, Json> ollama_chat_schemas(const std::vector<const ServedModel*>& models) {
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
  return {object_schema(std::move(properties), Json::array()),
          {{"type", "object"}, {"required", Json::array({"model", "created_at", "message", "done"})}}};
}

std::pair<Json, Json> ollama_generate_schemas(const std::vector<const ServedModel*>& models) {
  Json properties = ollama_settings(models);
  add(properties, {{"prompt", or_null(text)}, {"system", or_null(text)}, {"raw", or_null(flag)}});
  return {object_schema(std::move(properties), Json::array()),
          {{"type", "object"}, {"required", Json::array({"model", "created_at", "response", "done"})}}};
}

std::pair<Json, Json> ollama_embed_schemas(const std::vector<const ServedModel*>& models) {
  const Json input{{"anyOf", Json::array({text, list(text, 1, max_texts)})}};
  return {object_schema({{"model", model_names(models)},
                         {"input", input},
                         {"truncate", or_null(flag)},
                         {"dimensions", whole_from(1, INT32_MAX)}},
                        Json::array({"input"})),
          {{"type", "object"}, {"required", Json::array({"model", "embeddings"})}}};
}

}  // namespace

std::optional<TextAbility> generation_ability_for(std::string_view path) {
  static constexpr std::array<std::pair<std::string_view, TextAbility>, 6> routes{{
      {"/v1/completions", TextAbility::generate},
      {"/v1/chat/completions", TextAbility::generate},
      {"/api/chat", TextAbility::generate},
      {"/api/generate", TextAbility::generate},
      {"/api/embed", TextAbility::embed},
      {"/api/embeddings", TextAbility::embed},
  }};
  const auto* const found = std::ranges::find(routes, path, &std::pair<std::string_view, TextAbility>::first);
  return found == routes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::pair<Json, Json>> generation_schemas(std::string_view path,
                                                        const std::vector<const ServedModel*>& models) {
  if (path == "/v1/completions") return completion_schemas(models);
  if (path == "/v1/chat/completions") return chat_schemas(models);
  if (path == "/api/chat") return ollama_chat_schemas(models);
  if (path == "/api/generate") return ollama_generate_schemas(models);
  if (path == "/api/embed") return ollama_embed_schemas(models);
  if (path == "/api/embeddings") {
    return std::pair<Json, Json>{
        object_schema({{"model", model_names(models)}, {"prompt", text}}, Json::array({"prompt"})),
        {{"type", "object"}, {"required", Json::array({"embedding"})}}};
  }
  if (path == "/api/show") {
    return std::pair<Json, Json>{
        object_schema({{"model", model_names(models)}, {"verbose", or_null(flag)}}, Json::array()), any_object};
  }
  return std::nullopt;
}

}  // namespace gpux::server::openapi
