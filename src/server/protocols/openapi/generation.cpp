#include "server/protocols/openapi/generation.h"

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

Json function_schema() {
  const Json name{{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]{1,64}$"}};
  return object_schema(
      {{"name", name}, {"description", or_null(text)}, {"parameters", or_null(any_object)}, {"strict", or_null(flag)}},
      Json::array({"name"}));
}

}  // namespace

Json whole_from(std::int64_t low, std::int64_t high) {
  return or_null({{"type", "integer"}, {"minimum", low}, {"maximum", high}});
}

Json list(Json items, std::size_t least, std::size_t most) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}, {"maxItems", most}};
}

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

Json tools() {
  return list(object_schema({{"type", {{"const", "function"}}}, {"function", function_schema()}},
                            Json::array({"type", "function"})),
              0, max_tools);
}

Operation generation(Json request, Json answer, const std::string& streamed) {
  Operation operation = json_operation(std::move(request), std::move(answer));
  operation.content[streamed] = {{"schema", {{"type", "string"}}}};
  return operation;
}

}  // namespace gpux::server::openapi
