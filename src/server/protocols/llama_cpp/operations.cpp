#include "server/protocols/llama_cpp/operations.h"

#include <utility>

#include "server/protocols/llama_cpp/requests.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/tei/requests.h"

namespace gpux::server::llama_cpp {

using namespace openapi;

namespace {

Operation answer_for_model(Json answer) {
  Operation operation = json_answer(std::move(answer));
  operation.parameters = Json::array({{{"name", "model"}, {"in", "query"}, {"schema", {{"type", "string"}}}}});
  return operation;
}

Json object_with(Json members) {
  return {{"type", "object"}, {"required", std::move(members)}};
}

}  // namespace

Operation describe_properties(const ServedList&) {
  return answer_for_model(
      object_with(Json::array({"default_generation_settings", "total_slots", "model_alias", "chat_template"})));
}

Operation describe_slots(const ServedList&) {
  return answer_for_model({{"type", "array"}, {"items", object_with(Json::array({"id", "n_ctx", "is_processing"}))}});
}

Operation describe_applied_template(const ServedList&) {
  return json_answer(object_with(Json::array({"prompt"})));
}

Operation describe_tokenize(const ServedList& models) {
  Operation operation = json_operation(
      any_of(Json::array({object_schema(tei::tokenize_fields(), models), object_schema(content_fields(), models),
                          object_schema(prompt_fields(), models)})),
      any_of(Json::array({{{"type", "array"}}, object_with(Json::array({"tokens"}))})));
  operation.takes_text = true;
  return operation;
}

Operation describe_detokenize(const ServedList&) {
  return json_answer(object_with(Json::array({"content", "prompt"})));
}

}  // namespace gpux::server::llama_cpp
