#include "server/protocols/responses/tools.h"

#include <array>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8_prefix.h"
#include "generation/tool_constraint.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

namespace gpux::server::responses {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 2> tool_types{"function", "namespace"};
constexpr std::array<std::string_view, 1> function_types{"function"};

constexpr std::array<Field, 8> tool_table{{
    {"type", choice, required, nullptr, function_types},
    {"name", text, required},
    {"description", text},
    {"parameters", other},
    {"strict", flag},  // arguments are always valid where a call is required
    refused_field("defer_loading", "the model sees all tools; accepted: false", "false"),
    refused_field("allowed_callers", "the model calls functions; accepted: [\"direct\"]", R"(["direct"])"),
    ignored_field("output_schema"),
}};

// The model sees the functions, and not what groups them.
constexpr std::array<Field, 4> namespace_table{{
    {"type", choice, required, nullptr, tool_types},
    {"name", text, required},
    ignored_field("description"),
    {"tools", other, required},
}};

constexpr std::array<std::string_view, 2> chosen_types{"function", "allowed_tools"};
constexpr std::array<std::string_view, 2> modes{"auto", "required"};

constexpr std::array<Field, 2> chosen_table{{{"type", choice, required, nullptr, chosen_types}, {"name", text}}};
constexpr std::array<Field, 2> allowed_table{{{"mode", choice, optional, nullptr, modes}, {"tools", other}}};

constexpr std::array<Field, 2> allowed_tool_table{{
    {"type", choice, required, nullptr, function_types},
    {"name", text, required},
}};

class ToolReader {
 public:
  explicit ToolReader(MemberRules* rules) : rules_(rules) {}

  void read(const RequestJson& value, std::string_view written, const std::string& place) {
    const bool is_namespace = value.is_object() && value.value("type", RequestJson()) == "namespace";
    if (!is_namespace) {
      read_function(value, written, place, {}, tool_types);
      return;
    }
    Members group(value, place, namespace_table, rules_);
    group.ignore("type");
    const std::string name = group.text("name");
    const RequestJson& list = group.must_find("tools");
    group.finish();
    const std::string list_place = place + ".tools";
    if (!list.is_array()) refuse_member(list_place, "is no list");
    const std::vector<std::string_view> texts = split_array(member_text(written, "tools"));
    for (std::size_t i = 0; i < list.size(); ++i) {
      read_function(list[i], texts.at(i), fmt::format("{}[{}]", list_place, i), name, function_types);
    }
  }

  /// As templates and chats have them; empty: there are none.
  [[nodiscard]] std::string tools() const { return tools_.empty() ? std::string() : "[" + tools_ + "]"; }

  NamedFunctions functions() && { return std::move(functions_); }

 private:
  // `types`: what is accepted there.
  void read_function(const RequestJson& value, std::string_view written, const std::string& place,
                     const std::string& group, std::span<const std::string_view> types) {
    Members tool(value, place, tool_table, rules_);
    const RequestJson& type = tool.must_find("type");
    if (type != "function") {
      refuse_member(tool.name_of("type"),
                    fmt::format("is '{}'; accepted: {}", utf8_prefix(tool.text("type"), 40), fmt::join(types, ", ")));
    }
    const std::string name = tool.text("name");
    if (!generation::is_tool_name(name)) {
      refuse_member(tool.name_of("name"),
                    fmt::format("is '{}'; accepted: 1 to 64 letters, digits, underscores, hyphens and dots",
                                utf8_prefix(name, 80)));
    }
    if (!functions_.emplace(name, group).second) {
      refuse_member(place, fmt::format("has the name '{}' of another tool", name));
    }
    append(tool, name, written);
    tool.ignore("strict");
    tool.finish();
  }

  void append(Members& tool, const std::string& name, std::string_view written) {
    const RequestJson* parameters = tool.find("parameters");
    if (parameters != nullptr && !parameters->is_object()) refuse_member(tool.name_of("parameters"), "is no object");
    const std::string description = tool.text("description");
    if (!tools_.empty()) tools_ += ',';
    tools_ += R"({"type":"function","function":{"name":)";
    append_json_string(tools_, name);
    if (tool.find("description") != nullptr) {
      tools_ += R"(,"description":)";
      append_json_string(tools_, description);
    }
    if (parameters != nullptr) {
      tools_ += R"(,"parameters":)";
      tools_ += member_text(written, "parameters");
    }
    tools_ += "}}";
  }

  MemberRules* rules_;
  std::string tools_;
  NamedFunctions functions_;
};

}  // namespace

NamedFunctions read_tools(Members& members, std::string_view body, ChatOptions& options) {
  const RequestJson* list = members.find("tools");
  if (list == nullptr || (list->is_array() && list->empty())) return {};
  if (!list->is_array()) refuse_member("tools", "is no list");
  const std::vector<std::string_view> written = split_array(member_text(body, "tools"));
  ToolReader reader(members.rules());
  for (std::size_t i = 0; i < list->size(); ++i) reader.read((*list)[i], written.at(i), fmt::format("tools[{}]", i));
  options.tools = reader.tools();
  return std::move(reader).functions();
}

namespace {

std::string read_chosen_name(Members& chosen, const NamedFunctions& functions) {
  std::string name = chosen.text("name");
  if (!functions.contains(name)) {
    refuse_member(chosen.name_of("name"), fmt::format("is '{}', which is none of the tools", utf8_prefix(name, 80)));
  }
  return name;
}

// Of `tools`, as templates have them, those with these names.
std::string tools_named(const std::string& tools, const std::set<std::string, std::less<>>& names) {
  std::string those;
  for (const std::string_view tool : split_array(tools)) {
    const RequestJson name = RequestJson::parse(member_text(member_text(tool, "function"), "name"));
    if (!names.contains(name.get_ref<const std::string&>())) continue;
    if (!those.empty()) those += ',';
    those += tool;
  }
  return "[" + those + "]";
}

// The model sees the allowed ones alone, as in chats.
void allow_tools(Members& chosen, const NamedFunctions& functions, ChatOptions& options) {
  const RequestJson* list = chosen.find("tools");
  const std::string place = chosen.name_of("tools");
  if (list == nullptr || !list->is_array() || list->empty()) refuse_member(place, "is no list of at least one tool");
  std::set<std::string, std::less<>> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    Members tool = chosen.inside((*list)[i], fmt::format("{}[{}]", place, i), allowed_tool_table);
    (void)tool.choice("type");
    names.insert(read_chosen_name(tool, functions));
    tool.finish();
  }
  options.tools = tools_named(options.tools, names);
  if (chosen.choice("mode") == std::size_t{1}) options.tool_choice = ToolChoice::required;
}

void read_choice(const RequestJson& value, const NamedFunctions& functions, MemberRules* rules, ChatOptions& options) {
  Members chosen(value, "tool_choice", chosen_table, rules);
  if (chosen.choice("type") == std::size_t{1}) {
    chosen.also(allowed_table);
    chosen.ignore("name");
    allow_tools(chosen, functions, options);
  } else {
    options.tool_name = read_chosen_name(chosen, functions);
    options.tool_choice = ToolChoice::required;
  }
  chosen.finish();
}

}  // namespace

void read_tool_choice(Members& members, const NamedFunctions& functions, ChatOptions& options) {
  const RequestJson* asked = members.find("tool_choice");
  options.allows_several_calls = members.flag("parallel_tool_calls", true);
  if (asked == nullptr) return;
  if (asked->is_object()) {
    read_choice(*asked, functions, members.rules(), options);
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
