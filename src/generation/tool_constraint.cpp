#include "generation/tool_constraint.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

using Json = nlohmann::ordered_json;

// Without "type" a schema accepts values that are no arguments.
std::string arguments_schema(const ToolFunction& function) {
  const auto refuse = [&](std::string_view reason) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the parameters of the tool '{}' {}; accepted: a JSON schema with "
                            "the type object",
                            function.name, reason));
  };
  if (function.parameters.empty()) return R"({"type": "object", "properties": {}, "additionalProperties": false})";
  Json schema = Json::parse(function.parameters, nullptr, false);
  if (!schema.is_object()) refuse("are no object");
  const auto type = schema.find("type");
  if (type == schema.end()) {
    schema["type"] = "object";
  } else if (*type != "object") {
    refuse("have another type");
  }
  return schema.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A text as a string of a grammar, or within an expression of one: markers are of printable ASCII.
std::string with_escapes(std::string_view text, std::string_view escaped) {
  std::string result;
  for (const char c : text) {
    if (escaped.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// The rules for what comes before the calls: `thinking` ends at the first marker that ends it.
std::string thinking_rules(const ReasoningPart& reasoning) {
  return fmt::format("\nthinking: {}reasoning /[ \\t\\r\\n]{{1,8}}/?\nreasoning[lazy]: /(.|\\n)*{}/",
                     reasoning.is_open ? "" : fmt::format("\"{}\" ", with_escapes(reasoning.begin, "\"\\")),
                     with_escapes(reasoning.end, R"(\.+*?()|[]{}^$/)"));
}

}  // namespace

bool is_tool_name(std::string_view name) noexcept {
  constexpr std::size_t max_bytes = 64;
  return !name.empty() && name.size() <= max_bytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

ToolCallForm tool_call_form(std::span<const ToolFunction> functions, ToolCallStyle style, bool allows_several,
                            const ReasoningPart& reasoning) {
  const bool has_markers = style == ToolCallStyle::hermes, has_reasoning = !reasoning.end.empty();
  const std::string_view arguments = style == ToolCallStyle::llama ? "parameters" : "arguments";
  std::string grammar = "start: ";
  if (has_reasoning) grammar += reasoning.is_open ? "thinking " : "thinking? ";
  grammar += has_markers ? R"("<tool_call>\n" call "\n</tool_call>")" : "call";
  if (allows_several) {
    grammar += has_markers ? R"( ("\n<tool_call>\n" call "\n</tool_call>")*)" : R"( ("; " call)*)";
  }
  std::string calls, schemas;
  if (has_reasoning) grammar += thinking_rules(reasoning);
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const ToolFunction& function = functions[i];
    if (!is_tool_name(function.name)) {
      throw Error(ErrorCode::invalid_input,
                  "a tool's name is not of 1 to 64 letters, digits, underscores, hyphens and dots");
    }
    calls += fmt::format(R"({}"{{\"name\": \"{}\", \"{}\": " arguments_{} "}}")", i == 0 ? "" : " | ", function.name,
                         arguments, i);
    schemas += fmt::format("\narguments_{}: %json {}", i, arguments_schema(function));
  }
  ToolCallForm form;
  form.constraint = {OutputConstraint::Kind::grammar, fmt::format("{}\ncall: {}{}\n", grammar, calls, schemas)};
  form.format.reasoning_begin = reasoning.begin;
  form.format.reasoning_end = reasoning.end;
  form.format.tool_calls = has_markers ? ToolCallStyle::hermes : ToolCallStyle::llama;
  return form;
}

}  // namespace gpux::generation
