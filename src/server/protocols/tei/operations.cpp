#include "server/protocols/tei/operations.h"

#include "server/protocols/openapi/texts.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::tei {
namespace {

using namespace openapi;

const Json text{{"type", "string"}}, number{{"type", "number"}}, flag = or_null({{"type", "boolean"}});
const Json side = or_null({{"enum", Json::array({"left", "right", "Left", "Right"})}});
const Json vectors{{"type", "array"}, {"items", {{"type", "array"}, {"items", number}}}};

Operation text_operation(Json request, Json answer) {
  Operation operation = json_operation(std::move(request), std::move(answer));
  operation.takes_text = true;
  return operation;
}

}  // namespace

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

Operation describe_similarity(const ServedList&) {
  return json_operation(
      object_schema({{"inputs", object_schema({{"source_sentence", text}, {"sentences", list_of(text)}},
                                              Json::array({"source_sentence", "sentences"}))},
                     {"parameters", or_null(object_schema({{"truncation_direction", side}}, Json::array()))}},
                    Json::array({"inputs"})),
      {{"type", "array"}, {"items", number}});
}

Operation describe_tokenize(const ServedList&) {
  return text_operation(
      object_schema({{"inputs", {{"anyOf", Json::array({text, list_of(text)})}}}, {"add_special_tokens", flag}},
                    Json::array({"inputs"})),
      {{"type", "array"}, {"items", {{"type", "array"}, {"items", {{"type", "object"}}}}}});
}

Operation describe_decode(const ServedList& models) {
  const Json ids{{"type", "array"}, {"items", token_schema(models)}, {"minItems", 1}};
  return json_operation(
      object_schema({{"ids", {{"anyOf", Json::array({ids, list_of(ids)})}}}, {"skip_special_tokens", flag}},
                    Json::array({"ids"})),
      {{"type", "array"}, {"items", text}});
}

Operation describe_embed_all(const ServedList& models) {
  return text_operation(object_schema({{"inputs", text_or_tokens(text, models)}, {"truncation_direction", side}},
                                      Json::array({"inputs"})),
                        {{"type", "array"}, {"items", vectors}});
}

Operation describe_embed_sparse(const ServedList& models) {
  const Json weight{{"type", "object"}, {"required", Json::array({"index", "value"})}};
  return text_operation(
      object_schema({{"inputs", text_or_tokens(text, models)}, {"truncation_direction", side}, {"return_tokens", flag}},
                    Json::array({"inputs"})),
      {{"type", "array"}, {"items", {{"type", "array"}, {"items", weight}}}});
}

Operation describe_rerank(const ServedList&) {
  return json_operation(
      object_schema(
          {{"query", text}, {"texts", list_of(text)}, {"raw_scores", flag}, {"return_text", flag}, {"truncate", flag}},
          Json::array({"query", "texts"})),
      {{"type", "array"}, {"items", {{"type", "object"}, {"required", Json::array({"index", "score"})}}}});
}

Operation describe_embed(const ServedList& models) {
  return text_operation(object_schema({{"inputs", text_or_tokens(text, models)},
                                       {"truncation_direction", side},
                                       {"dimensions", dimensions_schema(models)}},
                                      Json::array({"inputs"})),
                        vectors);
}

Operation describe_by_ability(const ServedList& models) {
  const ServedModel& model = *models.front();
  if (is_able(model, TextAbility::embed)) {
    const Operation embed = describe_embed(models), similarity = describe_similarity(models);
    const auto answer = [](const Operation& of) { return of.content.at("application/json").at("schema"); };
    return text_operation({{"anyOf", Json::array({embed.request, similarity.request})}},
                          {{"anyOf", Json::array({answer(embed), answer(similarity)})}});
  }
  if (is_able(model, TextAbility::embed_sparse)) return describe_embed_sparse(models);
  if (is_able(model, TextAbility::rank)) return describe_rerank(models);
  return text_operation(classify_schema(), {{"type", "array"}});
}

}  // namespace gpux::server::tei
