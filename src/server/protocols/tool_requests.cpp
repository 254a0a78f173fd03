#include "server/protocols/tool_requests.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
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

constexpr std::array<std::string_view, 2> choice_types{"function", "allowed_tools"};
constexpr std::array<std::string_view, 2> modes{"auto", "required"};

constexpr std::array<Field, 4> chosen_table{{
    {"type", choice, required, nullptr, choice_types},
    {"function", object},
    {"name", text},  // of the function, in the form of OpenAI's responses
    {"allowed_tools", object},
}};

constexpr std::array<Field, 2> allowed_table{{
    {"mode", choice, required, nullptr, modes},
    {"tools", other, required},
}};

constexpr std::array<Field, 2> allowed_tool_table{{
    {"type", choice, optional, nullptr, tool_types},
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

using Names = std::set<std::string, std::less<>>;

std::string one_of(const Names& functions, std::string name, const std::string& place) {
  if (!functions.contains(name)) {
    refuse_member(place, fmt::format("is '{}', which is none of the tools", utf8_prefix(name, 80)));
  }
  return name;
}

std::string read_function_name(Members& members, const RequestJson& value, const std::string& place,
                               const Names& functions) {
  Members function = members.inside(value, place, chosen_function_table);
  std::string name = function.text("name");
  function.finish();
  return one_of(functions, std::move(name), place + ".name");
}

// Those of the tools that have one of the names, as they are written.
std::string tools_named(std::string_view tools, std::span<const std::string> functions, const Names& names) {
  const std::vector<std::string_view> texts = split_array(tools);
  std::string those = "[";
  for (std::size_t i = 0; i < texts.size() && i < functions.size(); ++i) {
    if (names.contains(functions[i])) those.append(those.size() == 1 ? "" : ", ").append(texts[i]);
  }
  return those + "]";
}

void allow_tools(Members& chosen, std::span<const std::string> functions, ChatOptions& options) {
  const std::string place = "tool_choice.allowed_tools";
  Members allowed = chosen.inside(*chosen.find("allowed_tools"), place, allowed_table);
  const auto mode = allowed.choice("mode");
  const RequestJson& list = allowed.must_find("tools");
  if (!list.is_array() || list.empty()) refuse_member(place + ".tools", "is no list of at least one tool");
  const Names known(functions.begin(), functions.end());
  Names names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string tool_place = fmt::format("{}.tools[{}]", place, i);
    Members tool = allowed.inside(list[i], tool_place, allowed_tool_table);
    tool.ignore("type");
    names.insert(read_function_name(tool, tool.must_find("function"), tool_place + ".function", known));
    tool.finish();
  }
  allowed.finish();
  options.tools = tools_named(options.tools, functions, names);
  if (mode == std::ranges::find(modes, "required") - modes.begin()) options.tool_choice = ToolChoice::required;
}

// The name is in the member "function", or, as in OpenAI's responses, beside the type.
std::string read_chosen_function(Members& chosen, const Names& functions) {
  const RequestJson* function = chosen.find("function");
  std::string name = chosen.text("name");
  if (function == nullptr && name.empty()) {
    refuse_member("tool_choice.function", "is missing", MemberProblem::missing);
  }
  if (function == nullptr) return one_of(functions, std::move(name), "tool_choice.name");
  if (!name.empty()) refuse_member("tool_choice", "has both function and name; accepted: one of them");
  return read_function_name(chosen, *function, "tool_choice.function", functions);
}

void read_choice(const RequestJson& value, std::span<const std::string> functions, MemberRules* rules,
                 ChatOptions& options) {
  Members chosen(value, "tool_choice", chosen_table, rules);
  const bool has_list = chosen.choice("type") == std::size_t{1};
  if (has_list && chosen.find("allowed_tools") == nullptr) {
    refuse_member("tool_choice.allowed_tools", "is missing", MemberProblem::missing);
  }
  const auto others = has_list ? std::vector{"function", "name"} : std::vector{"allowed_tools"};
  for (const char* other : others) {
    if (chosen.find(other) != nullptr)
      refuse_member(fmt::format("tool_choice.{}", other), "is there, and the type is another");
  }
  if (has_list) {
    allow_tools(chosen, functions, options);
  } else {
    options.tool_name = read_chosen_function(chosen, {functions.begin(), functions.end()});
    options.tool_choice = ToolChoice::required;
  }
  chosen.finish();
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
  std::set<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    std::string name = read_tool((*list)[i], fmt::format("tools[{}]", i), members.rules());
    if (!names.insert(name).second) {
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
    read_choice(*choice, functions, members.rules(), options);
    return;
  }
  constexpr std::array choices{ToolChoice::none, ToolChoice::automatic, ToolChoice::required};
  if (const auto which = members.choice("tool_choice")) options.tool_choice = choices.at(*which);
}

}  // namespace gpux::server
