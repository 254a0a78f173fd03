#include "server/protocols/kserve/requests.h"

#include <array>
#include <string>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "server/protocols/kserve/operations.h"
#include "server/protocols/request_json.h"
#include "tensor/json_envelope.h"

namespace gpux::server::kserve {
namespace {

constexpr auto predict_table = std::to_array<Field>({
    {"instances", FieldKind::other, FieldUse::required, instances_schema},
    refused_field("signature_name", "a model has one signature here; accepted: serving_default", "\"serving_default\""),
    refused_field("inputs", "accepted is a list of rows, as 'instances'"),
    refused_field("parameters", "models have no parameters here"),
});

// The other members than `instances`; their values are small.
void read_setting(const JsonInput& member, MemberRules* rules) {
  constexpr std::size_t max_setting_bytes = 4096;
  if (member.raw.size() > max_setting_bytes) {
    refuse_member(std::string(utf8_prefix(member.name, 60)), fmt::format("has more than {} bytes", max_setting_bytes));
  }
  RequestJson object = RequestJson::object();
  object[member.name] = parse_request(member.raw, {});
  Members(object, "", std::span(predict_table).subspan(1), rules).finish();
}

}  // namespace

std::vector<std::string_view> read_instances(std::string_view body, MemberRules* rules) {
  if (!is_object(body)) refuse_body("the body is no object");
  std::string_view list;
  for (const JsonInput& member : split_object(body)) {
    if (member.name == "instances") {
      list = member.raw;
    } else {
      read_setting(member, rules);
    }
  }
  if (list.empty() || list == "null") refuse_member("instances", "is missing", MemberProblem::missing);
  if (!is_array(list)) refuse_member("instances", "is no list");
  std::vector<std::string_view> instances = split_array(list);
  if (instances.empty()) refuse_member("instances", "is empty");
  return instances;
}

std::span<const Field> predict_fields() {
  return predict_table;
}

}  // namespace gpux::server::kserve
