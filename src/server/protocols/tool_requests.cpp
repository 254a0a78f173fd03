#include "server/protocols/tool_requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "server/protocols/openapi/operation.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 1> tool_types{"function"};

constexpr std::array<Field, 2> tool_table{{
    {"type", choice, optional, nullptr, tool_types},
    {"function", object, required},
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

// `text` is the same tool as it is written.
generation::ToolFunction read_tool(const RequestJson& value, std::string_view text, const std::string& place) {
  Members tool(value, place, tool_table);
  tool.ignore("type");
  const RequestJson& described = tool.must_find("function");
  tool.refuse_others();
  Members members(described, place + ".function", function_table);
  generation::ToolFunction function;
  function.name = members.text("name");
  if (!generation::is_tool_name(function.name)) {
    refuse_member(members.name_of("name"),
                  fmt::format("is '{}'; accepted: 1 to 64 letters, digits, underscores, hyphens and dots",
                              utf8_prefix(function.name, 80)));
  }
  members.ignore("description");
  members.ignore("strict");
  const RequestJson* parameters = members.find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    refuse_member(members.name_of("parameters"), "is no object");
  }
  members.refuse_others();
  if (parameters != nullptr) function.parameters = member_text(member_text(text, "function"), "parameters");
  return function;
}

void choose_function(const RequestJson& value, ToolUse& tools) {
  Members chosen(value, "tool_choice", chosen_table);
  chosen.ignore("type");
  Members function(chosen.must_find("function"), "tool_choice.function", chosen_function_table);
  const std::string name = function.text("name");
  function.refuse_others();
  chosen.refuse_others();
  std::erase_if(tools.functions, [&](const generation::ToolFunction& one) { return one.name != name; });
  if (tools.functions.empty()) {
    refuse_member("tool_choice.function.name",
                  fmt::format("is '{}', which is none of the tools", utf8_prefix(name, 80)));
  }
  tools.choice = ToolChoice::required;
  tools.allows_several = false;
}

}  // namespace

std::string_view member_text(std::string_view object, std::string_view name) {
  for (const JsonInput& member : split_object(object)) {
    if (member.name == name) return member.raw == "null" ? std::string_view() : member.raw;
  }
  return {};
}

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

ToolUse read_tools(Members& members, std::string_view body) {
  ToolUse tools;
  const RequestJson* list = members.find("tools");
  if (list == nullptr || (list->is_array() && list->empty())) return tools;
  if (!list->is_array()) refuse_member("tools", "is no list");
  if (list->size() > max_tools) {
    refuse_member("tools", fmt::format("has {} tools; accepted: up to {}", list->size(), max_tools));
  }
  const std::string_view text = member_text(body, "tools");
  const std::vector<std::string_view> texts = split_array(text);
  for (std::size_t i = 0; i < list->size() && i < texts.size(); ++i) {
    generation::ToolFunction function = read_tool((*list)[i], texts[i], fmt::format("tools[{}]", i));
    const bool is_known = std::ranges::any_of(
        tools.functions, [&](const generation::ToolFunction& other) { return other.name == function.name; });
    if (is_known)
      refuse_member(fmt::format("tools[{}]", i), fmt::format("has the name '{}' of another tool", function.name));
    tools.functions.push_back(std::move(function));
  }
  tools.json = text;
  tools.choice = ToolChoice::automatic;
  return tools;
}

void read_tool_choice(Members& members, ToolUse& tools) {
  const RequestJson* choice = members.find("tool_choice");
  const bool allows_several = members.flag("parallel_tool_calls", true);
  tools.allows_several = allows_several;
  if (choice == nullptr) return;
  if (choice->is_string() && tools.functions.empty() && *choice != "required") {
    members.ignore("tool_choice");
    return;
  }
  if (tools.functions.empty()) refuse_member("tool_choice", "is there, and no tools are");
  if (choice->is_object()) {
    choose_function(*choice, tools);
    return;
  }
  constexpr std::array choices{ToolChoice::none, ToolChoice::automatic, ToolChoice::required};
  const auto which = members.choice("tool_choice");
  if (which) tools.choice = choices.at(*which);
  if (tools.choice != ToolChoice::none) return;
  tools.json.clear();
  tools.functions.clear();
}

}  // namespace gpux::server
