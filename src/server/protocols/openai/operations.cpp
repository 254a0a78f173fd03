#include "server/protocols/openai/operations.h"

#include "server/protocols/generation_fields.h"
#include "server/protocols/openapi/generation.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::openai {
namespace {

using namespace openapi;

const Json text{{"type", "string"}}, flag{{"type", "boolean"}}, any_object{{"type", "object"}};

// "input" of /v1/embeddings, of which `texts` is what texts are given as.
Json embeddings_input_schema(const Json& texts, const ServedList& models) {
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

// Of OpenAI's routes. What no schema can say, as which of the members exclude each other, is left out.
Json openai_settings(const ServedList& models) {
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

}  // namespace

Operation describe_embeddings(const ServedList& models) {
  Json filled = text;
  filled["minLength"] = 1;
  Json openai = object_schema({{"input", embeddings_input_schema(text_or_tokens(filled, models), models)},
                               {"model", model_names(models)},
                               {"encoding_format", or_null({{"enum", Json::array({"float", "base64"})}})},
                               {"dimensions", dimensions_schema(models)},
                               {"user", or_null(text)}},
                              Json::array({"input"}));
  if (any_is(models, TextAbility::embed_images)) {
    openai["properties"]["modality"] = or_null({{"enum", Json::array({"text", "image"})}});
  }
  return json_operation(openai, {{"type", "object"}, {"required", Json::array({"object", "data", "model", "usage"})}});
}

Operation describe_chat(const ServedList& models) {
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
  return generation(
      object_schema(std::move(properties), Json::array({"messages"})),
      {{"type", "object"}, {"required", Json::array({"id", "object", "created", "model", "choices", "usage"})}},
      "text/event-stream");
}

Operation describe_completions(const ServedList& models) {
  const Json tokens = list(token_schema(models), 1, max_texts);
  Json properties{
      {"prompt",
       {{"anyOf", Json::array({text, tokens, list({{"anyOf", Json::array({text, tokens})}}, 1, max_texts)})}}}};
  add(properties, openai_settings(models));
  add(properties, {{"logprobs", whole_from(0, 20)}, {"add_special_tokens", or_null(flag)}});
  return generation(
      object_schema(std::move(properties), Json::array({"prompt"})),
      {{"type", "object"}, {"required", Json::array({"id", "object", "created", "model", "choices", "usage"})}},
      "text/event-stream");
}

}  // namespace gpux::server::openai
