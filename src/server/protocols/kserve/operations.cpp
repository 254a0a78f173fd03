#include "server/protocols/kserve/operations.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/protocols/openapi/values.h"

namespace gpux::server::kserve {

using namespace openapi;

namespace {

// A row of a batch: the value without its first axis.
Json row_schema(ValueType type) {
  if (type.dimensions && !type.dimensions->empty()) type.dimensions->erase(type.dimensions->begin());
  return value_schema(type, false);
}

// The input that a value alone is for.
const SignatureEntry* only_required(const std::vector<SignatureEntry>& inputs) {
  const SignatureEntry* only = nullptr;
  for (const SignatureEntry& entry : inputs) {
    if (inputs.size() != 1 && !entry.required) continue;
    if (std::exchange(only, &entry) != nullptr) return nullptr;
  }
  return only;
}

Json named_rows_schema(const std::vector<SignatureEntry>& inputs) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const SignatureEntry& entry : inputs) {
    properties[entry.name] = row_schema(entry.type);
    if (entry.required) required.push_back(entry.name);
  }
  return object_schema(std::move(properties), std::move(required));
}

}  // namespace

Json instances_schema(const ServedList& models) {
  Json accepted = Json::array();
  for (const ServedModel* model : models) {
    const auto accept = [&](const std::vector<SignatureEntry>& inputs) {
      if (const SignatureEntry* only = only_required(inputs)) accepted.push_back(row_schema(only->type));
      accepted.push_back(named_rows_schema(inputs));
    };
    // Texts, or what is made of them.
    if (model->pipeline() != nullptr) accept(model->pipeline()->text_inputs());
    accept(model->runtime().info().signature.inputs);
  }
  return {{"type", "array"}, {"items", any_of(std::move(accepted))}, {"minItems", 1}};
}

Operation describe_predict(const ServedList&) {
  return json_answer({{"type", "object"},
                      {"properties", {{"predictions", {{"type", "array"}}}}},
                      {"required", Json::array({"predictions"})}});
}

}  // namespace gpux::server::kserve
