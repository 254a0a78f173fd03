#include "server/protocols/openapi/generation.h"

#include "server/protocols/text_inputs.h"
#include "server/protocols/tool_requests.h"

namespace gpux::server::openapi {
namespace {

const Json text{{"type", "string"}}, flag{{"type", "boolean"}}, any_object{{"type", "object"}};

Json function_schema() {
  const Json name{{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]{1,64}$"}};
  return object_schema(
      {{"name", name}, {"description", or_null(text)}, {"parameters", or_null(any_object)}, {"strict", or_null(flag)}},
      Json::array({"name"}));
}

}  // namespace

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

Json penalty_factor(const ServedList&) {
  return or_null({{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 100}});
}

Json tools(const ServedList&) {
  return or_null({{"type", "array"},
                  {"items", object_schema({{"type", {{"const", "function"}}}, {"function", function_schema()}},
                                          Json::array({"type", "function"}))}});
}

Operation generated_answer(Json answer, const std::string& streamed) {
  Operation operation = json_answer(std::move(answer));
  operation.content[streamed] = {{"schema", {{"description", "events or lines, as they come"}}}};
  return operation;
}

}  // namespace gpux::server::openapi
