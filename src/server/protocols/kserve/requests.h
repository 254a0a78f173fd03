#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "server/protocols/field.h"
#include "server/requests/member_rules.h"

/// Requests of KServe's data plane, version 1. Source: KServe's documentation, "V1 Protocol"; TensorFlow Serving's,
/// "RESTful API", for `signature_name`, `inputs` and {"b64": TEXT}.
namespace gpux::server::kserve {

/// The elements of {"instances": […]}, which are not read yet: views of the body. Error invalid_input. `rules` may be
/// null: unknown members are refused then.
std::vector<std::string_view> read_instances(std::string_view body, MemberRules* rules);

std::span<const Field> predict_fields();

}  // namespace gpux::server::kserve
