#include "server/protocols/console/operations.h"

namespace gpux::server::console {
namespace {

using openapi::Json;

Json text_of(std::initializer_list<const char*> media_types) {
  Json content;
  for (const char* type : media_types) content[type] = {{"schema", {{"type", "string"}}}};
  return content;
}

Json list_of(Json item) {
  return {{"type", "array"}, {"items", std::move(item)}};
}

Operation with_refusal(Operation operation) {
  operation.failures["403"] = {
      {"description", "a page of another origin asks, or without a key another machine or a strange Host"},
      {"content", openapi::json_content(openapi::reference("Detail"))}};
  return operation;
}

}  // namespace

Operation describe_page(const ServedList&) {
  return with_refusal({.content = text_of({"text/html"})});
}

Operation describe_file(const ServedList&) {
  return with_refusal({.content = text_of({"text/html", "text/css", "text/javascript"})});
}

Operation describe_state(const ServedList&) {
  const Json model{{"type", "object"}, {"required", Json::array({"name", "version", "state"})}};
  return with_refusal(json_answer({{"type", "object"},
                                   {"properties", {{"server", {{"type", "object"}}}, {"models", list_of(model)}}},
                                   {"required", Json::array({"server", "bounds", "models"})}}));
}

Operation describe_records(const ServedList&) {
  const Json failure{{"type", "object"}, {"required", Json::array({"time", "path", "status", "reason"})}};
  const Json line{{"type", "object"}, {"required", Json::array({"time", "level", "text"})}};
  return with_refusal(json_answer({{"type", "object"},
                                   {"properties", {{"failures", list_of(failure)}, {"log", list_of(line)}}},
                                   {"required", Json::array({"failures", "log"})}}));
}

}  // namespace gpux::server::console
