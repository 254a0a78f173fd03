#include "server/protocols/tei/operations.h"

#include "server/models/text_ability.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/tei/requests.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::tei {
namespace {

using namespace openapi;

const Json text{{"type", "string"}}, number{{"type", "number"}};
const Json vectors{{"type", "array"}, {"items", {{"type", "array"}, {"items", number}}}};

Operation answer_to_texts(Json answer) {
  Operation operation = json_answer(std::move(answer));
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
                          {"top_k", {{"type", Json::array({"integer", "null"})}, {"minimum", 1}}}}}};
  return {{"type", "object"},
          {"properties",
           {{"inputs", std::move(inputs)},
            {"raw_scores", flag},
            {"truncate", flag},
            {"truncation_direction", {{"enum", Json::array({"Left", "Right", "left", "right", nullptr})}}},
            {"parameters", parameters}}},
          {"required", Json::array({"inputs"})}};
}

Json extraction_schema(const ServedModel& model) {
  Json one = text;
  if (is_able(model, TextAbility::answer_questions)) {
    one = {{"type", "object"},
           {"properties", {{"question", text}, {"context", {{"type", "string"}, {"minLength", 1}}}}},
           {"required", Json::array({"question", "context"})}};
  }
  const Json list{{"type", "array"}, {"items", one}, {"minItems", 1}, {"maxItems", max_texts}};
  return {{"type", "object"},
          {"properties", {{"inputs", any_of(Json::array({one, list}))}}},
          {"required", Json::array({"inputs"})}};
}

Json image_labels_schema() {
  const Json text{{"type", "string"}, {"minLength", 1}};
  const Json list{{"type", "array"}, {"items", text}, {"minItems", 1}, {"maxItems", max_texts}};
  const Json parameters{{"type", "object"},
                        {"properties",
                         {{"candidate_labels", list},
                          {"hypothesis_template", {{"type", Json::array({"string", "null"})}}},
                          {"top_k", {{"type", Json::array({"integer", "null"})}, {"minimum", 1}}}}},
                        {"required", Json::array({"candidate_labels"})}};
  return {{"type", "object"},
          {"properties", {{"inputs", any_of(Json::array({text, list}))}, {"parameters", parameters}}},
          {"required", Json::array({"inputs", "parameters"})}};
}

Operation describe_similarity(const ServedList&) {
  return json_answer({{"type", "array"}, {"items", number}});
}

Operation describe_decode(const ServedList&) {
  return json_answer({{"type", "array"}, {"items", text}});
}

Operation describe_embed(const ServedList&) {
  return answer_to_texts(vectors);
}

Operation describe_embed_all(const ServedList&) {
  return answer_to_texts({{"type", "array"}, {"items", vectors}});
}

Operation describe_embed_sparse(const ServedList&) {
  const Json weight{{"type", "object"}, {"required", Json::array({"index", "value"})}};
  return answer_to_texts({{"type", "array"}, {"items", {{"type", "array"}, {"items", weight}}}});
}

Operation describe_rerank(const ServedList&) {
  return json_answer(
      {{"type", "array"}, {"items", {{"type", "object"}, {"required", Json::array({"index", "score"})}}}});
}

Operation describe_by_ability(const ServedList& models) {
  if (models.empty()) return answer_to_texts(Json::object());
  const ServedModel& model = *models.front();
  const auto with = [&](Operation operation, std::span<const Field> fields) {
    operation.request = object_schema(fields, models);
    return operation;
  };
  if (is_able(model, TextAbility::embed)) {
    Operation embed = with(describe_embed(models), embed_fields());
    const Operation similarity = with(describe_similarity(models), similarity_fields());
    const auto either = [](const Json& one, const Json& other) -> Json {
      return {{"anyOf", Json::array({one, other})}};
    };
    Json& answer = embed.content["application/json"]["schema"];
    answer = either(answer, similarity.content.at("application/json").at("schema"));
    embed.request = either(embed.request, similarity.request);
    return embed;
  }
  if (is_able(model, TextAbility::embed_sparse)) return with(describe_embed_sparse(models), embed_sparse_fields());
  if (is_able(model, TextAbility::rank)) return with(describe_rerank(models), rerank_fields());
  Operation answer = answer_to_texts(Json::object());
  answer.request = is_able(model, TextAbility::classify) ? classify_schema() : extraction_schema(model);
  return answer;
}

}  // namespace gpux::server::tei
