#include "server/protocols/anthropic/tools.h"

#include <array>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "generation/tool_constraint.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

namespace gpux::server::anthropic {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 1> tool_types{"custom"};
constexpr std::array<std::string_view, 4> choice_types{"auto", "any", "tool", "none"};

constexpr std::array<Field, 10> tool_table{{
    {"type", choice, optional, nullptr, tool_types},
    {"name", text, required},
    {"description", text},
    {"input_schema", object, required},
    {"strict", flag},  // arguments are always valid where a call is required
    ignored_field("cache_control"),
    ignored_field("eager_input_streaming"),
    refused_field("input_examples", "accepted are examples in the description"),
    refused_field("defer_loading", "the model sees all tools; accepted: false", "false"),
    refused_field("allowed_callers", "the model calls tools; accepted: [\"direct\"]", R"(["direct"])"),
}};

constexpr std::array<Field, 3> choice_table{{
    {"type", choice, required, nullptr, choice_types},
    {"name", text},
    {"disable_parallel_tool_use", flag},
}};

// The tool in the form that templates and chats have, appended to `tools`. Its name.
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
  tool.ignore("input_schema");
  tool.ignore("strict");
  tool.finish();
  tools += R"({"type":"function","function":{"name":)";
  append_json_string(tools, name);
  if (!description.empty()) {
    tools += R"(,"description":)";
    append_json_string(tools, description);
  }
  tools += R"(,"parameters":)";
  tools += member_text(written, "input_schema");
  tools += "}}";
  return name;
}

std::unordered_set<std::string> read_list(Members& members, std::string_view body, ChatOptions& options) {
  std::unordered_set<std::string> names;
  const RequestJson* list = members.find("tools");
  if (list == nullptr || (list->is_array() && list->empty())) return names;
  if (!list->is_array()) refuse_member("tools", "is no list");
  const std::vector<std::string_view> written = split_array(member_text(body, "tools"));
  std::string tools = "[";
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = fmt::format("tools[{}]", i);
    if (i != 0) tools += ',';
    const std::string name = read_tool((*list)[i], written.at(i), place, members.rules(), tools);
    if (!names.insert(name).second) refuse_member(place, fmt::format("has the name '{}' of another tool", name));
  }
  options.tools = tools + "]";
  return names;
}

}  // namespace

void read_tools(Members& members, std::string_view body, ChatOptions& options) {
  enum Choice : std::size_t { automatic, any, tool, none };

  const std::unordered_set<std::string> names = read_list(members, body, options);
  const RequestJson* asked = members.find("tool_choice");
  if (asked == nullptr) return;
  Members chosen = members.inside(*asked, "tool_choice", choice_table);
  const std::size_t type = chosen.choice("type").value_or(automatic);
  options.allows_several_calls = !chosen.flag("disable_parallel_tool_use", false);
  const std::string name = chosen.text("name");
  chosen.finish();
  if (names.empty()) {
    if (type == any || type == tool) refuse_member("tool_choice", "is there, and no tools are");
    return;
  }
  if (type == none) options.tool_choice = ToolChoice::none;
  if (type == any || type == tool) options.tool_choice = ToolChoice::required;
  if (type != tool) return;
  if (!names.contains(name)) {
    refuse_member("tool_choice.name", fmt::format("is '{}', which is none of the tools", utf8_prefix(name, 80)));
  }
  options.tool_name = name;
}

}  // namespace gpux::server::anthropic
