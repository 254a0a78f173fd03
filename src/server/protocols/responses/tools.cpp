#include "server/protocols/responses/tools.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "generation/tool_constraint.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

namespace gpux::server::responses {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 1> tool_types{"function"};
constexpr std::array<std::string_view, 3> choices{"none", "auto", "required"};

constexpr std::array<Field, 8> tool_table{{
    {"type", choice, required, nullptr, tool_types},
    {"name", text, required},
    {"description", text},
    {"parameters", other},
    {"strict", flag},  // arguments are always valid where a call is required
    refused_field("defer_loading", "the model sees all tools; accepted: false", "false"),
    refused_field("allowed_callers", "the model calls functions; accepted: [\"direct\"]", R"(["direct"])"),
    ignored_field("output_schema"),
}};

constexpr std::array<Field, 2> chosen_table{{
    {"type", choice, required, nullptr, tool_types},
    {"name", text, required},
}};

// The tool in the form that templates and chats have; appended to `tools`.
std::string read_tool(const RequestJson& value, std::string_view written, const std::string& place, MemberRules* rules,
                      std::string& tools) {
  Members tool(value, place, tool_table, rules);
  (void)tool.choice("type");
  std::string name = tool.text("name");
  if (!generation::is_tool_name(name)) {
    refuse_member(tool.name_of("name"),
                  fmt::format("is '{}'; accepted: 1 to 64 letters, digits, underscores, hyphens and dots",
                              utf8_prefix(name, 80)));
  }
  const std::string description = tool.text("description");
  tool.ignore("strict");
  const RequestJson* parameters = tool.find("parameters");
  if (parameters != nullptr && !parameters->is_object()) refuse_member(tool.name_of("parameters"), "is no object");
  tool.finish();
  tools += R"({"type":"function","function":{"name":)";
  append_json_string(tools, name);
  if (tool.find("description") != nullptr) {
    tools += R"(,"description":)";
    append_json_string(tools, description);
  }
  if (parameters != nullptr) {
    tools += R"(,"parameters":)";
    tools += member_text(written, "parameters");
  }
  tools += "}}";
  return name;
}

}  // namespace

std::vector<std::string> read_tools(Members& members, std::string_view body, ChatOptions& options) {
  std::vector<std::string> functions;
  const RequestJson* list = members.find("tools");
  if (list == nullptr || (list->is_array() && list->empty())) return functions;
  if (!list->is_array()) refuse_member("tools", "is no list");
  const std::vector<std::string_view> written = split_array(member_text(body, "tools"));
  std::unordered_set<std::string> names;
  std::string tools = "[";
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = fmt::format("tools[{}]", i);
    if (i != 0) tools += ',';
    std::string name = read_tool((*list)[i], written.at(i), place, members.rules(), tools);
    if (!names.insert(name).second) refuse_member(place, fmt::format("has the name '{}' of another tool", name));
    functions.push_back(std::move(name));
  }
  options.tools = tools + "]";
  return functions;
}

void read_tool_choice(Members& members, const std::vector<std::string>& functions, ChatOptions& options) {
  const RequestJson* asked = members.find("tool_choice");
  options.allows_several_calls = members.flag("parallel_tool_calls", true);
  if (asked == nullptr) return;
  if (asked->is_object()) {
    Members chosen = members.inside(*asked, "tool_choice", chosen_table);
    (void)chosen.choice("type");
    options.tool_name = chosen.text("name");
    chosen.finish();
    if (std::ranges::find(functions, options.tool_name) == functions.end()) {
      refuse_member("tool_choice.name",
                    fmt::format("is '{}', which is none of the tools", utf8_prefix(options.tool_name, 80)));
    }
    options.tool_choice = ToolChoice::required;
    return;
  }
  constexpr std::array meanings{ToolChoice::none, ToolChoice::automatic, ToolChoice::required};
  if (const auto which = members.choice("tool_choice")) options.tool_choice = meanings.at(*which);
  if (!functions.empty()) return;
  if (options.tool_choice == ToolChoice::required)
    refuse_member("tool_choice", "is 'required', and no tools are there");
  options.tool_choice = ToolChoice::automatic;
}

}  // namespace gpux::server::responses
