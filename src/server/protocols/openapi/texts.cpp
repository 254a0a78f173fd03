#include "server/protocols/openapi/texts.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "server/protocols/text_inputs.h"
#include "text/tokenizer.h"

namespace gpux::server::openapi {
namespace {

Json list_of(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", 1}, {"maxItems", max_texts}};
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

}  // namespace

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
  if (path.starts_with("/api/")) return std::nullopt;
  const std::string_view last = path.substr(path.rfind('/'));
  const auto* const found = std::find_if(routes.begin(), routes.end(), [&](const auto& r) { return r.first == last; });
  return found == routes.end() ? std::nullopt : std::optional(found->second);
}

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

Json model_names(const std::vector<const ServedModel*>& models) {
  Json names = Json::array();
  for (const ServedModel* model : models) names.push_back(model->name());
  return or_null({{"enum", std::move(names)}});
}

Json token_schema(const std::vector<const ServedModel*>& models) {
  return {{"type", "integer"}, {"minimum", 0}, {"maximum", last_token_of(models)}};
}

std::pair<Json, Json> text_schemas(std::string_view path, const std::vector<const ServedModel*>& models) {
  const Json text{{"type", "string"}}, flag = or_null({{"type", "boolean"}}), number{{"type", "number"}};
  const Json id = token_schema(models);
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
    Json openai = object_schema({{"input", embeddings_input_schema(text_or_tokens(filled), models)},
                                 {"model", model_names(models)},
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

}  // namespace gpux::server::openapi
