#include "server/protocols/tool_requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "generation/tool_constraint.h"
#include "server/protocols/openapi/operation.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 1> tool_types{"function"};

constexpr std::array<Field, 3> tool_table{{
    {"type", choice, optional, nullptr, tool_types},
    {"function", object, required},
    ignored_field("cache_control"),
}};

constexpr std::array<Field, 4> function_table{{
    {"name", text},
    {"description", text},
    {"strict", flag},  // arguments are always valid where a call is required
    {"parameters", other},
}};

constexpr std::array<Field, 2> chosen_table{{
    {"type", choice, required, nullptr, tool_types},
    {"function", object, required},
}};

constexpr std::array<Field, 1> chosen_function_table{{{"name", text}}};

// Its name.
std::string read_tool(const RequestJson& value, const std::string& place, MemberRules* rules) {
  Members tool(value, place, tool_table, rules);
  tool.ignore("type");
  const RequestJson& described = tool.must_find("function");
  tool.finish();
  Members function = tool.inside(described, place + ".function", function_table);
  std::string name = function.text("name");
  if (!generation::is_tool_name(name)) {
    refuse_member(function.name_of("name"),
                  fmt::format("is '{}'; accepted: 1 to 64 letters, digits, underscores, hyphens and dots",
                              utf8_prefix(name, 80)));
  }
  function.ignore("description");
  function.ignore("strict");
  const RequestJson* parameters = function.find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    refuse_member(function.name_of("parameters"), "is no object");
  }
  function.finish();
  return name;
}

void choose_function(const RequestJson& value, std::span<const std::string> functions, MemberRules* rules,
                     ChatOptions& options) {
  Members chosen(value, "tool_choice", chosen_table, rules);
  chosen.ignore("type");
  Members function = chosen.inside(chosen.must_find("function"), "tool_choice.function", chosen_function_table);
  options.tool_name = function.text("name");
  function.finish();
  chosen.finish();
  if (std::ranges::find(functions, options.tool_name) == functions.end()) {
    refuse_member("tool_choice.function.name",
                  fmt::format("is '{}', which is none of the tools", utf8_prefix(options.tool_name, 80)));
  }
  options.tool_choice = ToolChoice::required;
}

}  // namespace

std::span<const Field> tool_choice_fields() {
  static constexpr std::array<std::string_view, 3> choices{"none", "auto", "required"};
  static constexpr auto schema = [](const ServedList&) -> openapi::Json {
    return openapi::or_null({{"anyOf", openapi::Json::array({{{"enum", choices}}, {{"type", "object"}}})}});
  };
  static constexpr std::array<Field, 2> table{{
      {"tool_choice", FieldKind::choice, optional, schema, choices},
      {"parallel_tool_calls", flag},
  }};
  return table;
}

std::vector<std::string> read_tools(Members& members, std::string_view body, ChatOptions& options) {
  std::vector<std::string> functions;
  const RequestJson* list = members.find("tools");
  if (list == nullptr || (list->is_array() && list->empty())) return functions;
  if (!list->is_array()) refuse_member("tools", "is no list");
  if (list->size() > max_tools) {
    refuse_member("tools", fmt::format("has {} tools; accepted: up to {}", list->size(), max_tools));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    std::string name = read_tool((*list)[i], fmt::format("tools[{}]", i), members.rules());
    if (std::ranges::find(functions, name) != functions.end()) {
      refuse_member(fmt::format("tools[{}]", i), fmt::format("has the name '{}' of another tool", name));
    }
    functions.push_back(std::move(name));
  }
  options.tools = member_text(body, "tools");
  return functions;
}

void read_tool_choice(Members& members, std::span<const std::string> functions, ChatOptions& options) {
  const RequestJson* choice = members.find("tool_choice");
  options.allows_several_calls = members.flag("parallel_tool_calls", true);
  if (choice == nullptr) return;
  if (choice->is_string() && functions.empty() && *choice != "required") {
    members.ignore("tool_choice");
    return;
  }
  if (functions.empty()) refuse_member("tool_choice", "is there, and no tools are");
  if (choice->is_object()) {
    choose_function(*choice, functions, members.rules(), options);
    return;
  }
  constexpr std::array choices{ToolChoice::none, ToolChoice::automatic, ToolChoice::required};
  if (const auto which = members.choice("tool_choice")) options.tool_choice = choices.at(*which);
}

}  // namespace gpux::server
