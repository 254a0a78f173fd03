#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpux::vector_store {

/// What a payload must have: `value`, a text, number, truth value or null, at the end of `path`.
struct Condition {
  std::vector<std::string> path;
  nlohmann::json value;

  bool operator==(const Condition&) const = default;
};

/// All of them must hold; empty: every payload passes.
using Filter = std::vector<Condition>;

/// Parses "KEY=VALUE", as `gpux search --where` gives it. KEY is a path of names with dots between them. VALUE is a
/// JSON number, `true`, `false`, `null` or a JSON text in double quotes; anything else is a text as it is. Pure. Error
/// usage.
Condition parse_condition(std::string_view text);

/// The name that messages and stores give a path: "a.b".
std::string path_name(const Condition& condition);

/// Whether the payload has all of it. Numbers are equal by value, whatever their form (1 and 1.0). Pure.
bool matches(const nlohmann::json& payload, const Filter& filter);

/// Two JSON objects, one of which a payload contains, as PostgreSQL's operator @> has it, where it meets a condition.
struct ContainedObjects {
  std::string with_value;  ///< {"a": {"b": 1}}
  std::string with_list;   ///< {"a": {"b": [1]}}: the value is an element of a list

  bool operator==(const ContainedObjects&) const = default;
};

/// Those of each condition. Pure.
std::vector<ContainedObjects> containment_of(const Filter& filter);

}  // namespace gpux::vector_store
