#include "server/protocols/cohere/operations.h"

namespace gpux::server::cohere {

using openapi::Json;

Operation describe_rank(const ServedList&) {
  const Json result{{"type", "object"}, {"required", Json::array({"index", "relevance_score"})}};
  return json_answer({{"type", "object"},
                      {"properties", {{"results", {{"type", "array"}, {"items", result}}}}},
                      {"required", Json::array({"id", "model", "results"})}});
}

}  // namespace gpux::server::cohere
