#include "server/requests/limits_file.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/files.h"
#include "project/project_check.h"
#include "project/project_schema.h"

namespace gpux::server {
namespace {

using yaml::TreeNode;
using enum KeyKind;
using enum InPackage;

constexpr std::int64_t max_limit = std::int64_t{1} << 40;

constexpr SchemaKey limit_key(std::string_view name, std::string_view description) {
  return {.name = name, .kind = integer, .in_package = of_the_user, .description = description, .maximum = max_limit};
}

constexpr std::array<SchemaKey, 4> limit_keys{{
    limit_key("requests_per_minute", "Requests that use a model; 0: no limit."),
    limit_key("tokens_per_minute", "Tokens that models read and generate; 0: no limit."),
    limit_key("tokens_per_day", "The same of a day; 0: no limit."),
    limit_key("requests_in_flight", "Requests that are worked on at the same time; 0: no limit."),
}};

constexpr std::array<SchemaKey, 2> file_keys{{
    {.name = "default",
     .kind = object,
     .in_package = of_the_user,
     .description = "Of each key that is not listed, and of each address that sends requests without a key.",
     .keys = limit_keys},
    {.name = "keys",
     .kind = named_objects,
     .in_package = of_the_user,
     .description = "By the names of keys.",
     .keys = limit_keys,
     .short_form = "requests_per_minute"},
}};

constexpr SchemaKey limits_root{.name = "limits.yml",
                                .kind = object,
                                .in_package = of_the_user,
                                .description = "What clients of a server may send.",
                                .required = true,
                                .keys = file_keys};

RequestLimits limits_of(const TreeNode& node, RequestLimits limits) {
  const auto read = [&](const TreeNode& value) {
    return static_cast<std::uint64_t>(integer_from(value.text).value_or(0));
  };
  if (node.kind == TreeNode::Kind::scalar) {
    limits.requests_per_minute = read(node);
    return limits;
  }
  for (const auto& [name, limit] :
       {std::pair("requests_per_minute", &limits.requests_per_minute),
        std::pair("tokens_per_minute", &limits.tokens_per_minute), std::pair("tokens_per_day", &limits.tokens_per_day),
        std::pair("requests_in_flight", &limits.requests_in_flight)}) {
    if (const TreeNode* value = node.given(name)) *limit = read(*value);
  }
  return limits;
}

}  // namespace

LimitRules read_limits_file(const std::filesystem::path& file) {
  constexpr std::uint64_t limit_bytes = std::uint64_t{16} << 20;
  return parse_limits_file(read_file(file, limit_bytes), file);
}

LimitRules parse_limits_file(std::string_view text, const std::filesystem::path& file) {
  ProblemList problems(file.string());
  Positions positions;
  const auto root = parse_expanded(text, file.string(), problems);
  check_against_schema(*root, limits_root, problems, positions);
  problems.throw_if_any();
  LimitRules rules;
  if (const TreeNode* each = root->given("default")) rules.each = limits_of(*each, {});
  if (const TreeNode* keys = root->given("keys")) {
    for (const yaml::Entry& entry : keys->entries) {
      rules.by_key.emplace(entry.key, limits_of(*entry.value, rules.each));
    }
  }
  return rules;
}

}  // namespace gpux::server
