#include "generation/tool_constraint.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generation/tool_call_formats.h"
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

// A text as a string of a grammar, or within an expression of one.
std::string with_escapes(std::string_view text, std::string_view escaped) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (escaped.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

/// Writes texts with markers as parts of a rule.
class MarkedText {
 public:
  explicit MarkedText(const std::map<std::string, std::uint32_t>& tokens) : tokens_(tokens) {}

  /// `number`: a character that stands for a number; 0: none does.
  [[nodiscard]] std::string rule(std::string_view text, char number = 0) const {
    std::string parts, literal;
    const auto end_literal = [&] {
      if (!literal.empty()) parts += fmt::format(" \"{}\"", with_escapes(literal, "\"\\"));
      literal.clear();
    };
    while (!text.empty()) {
      if (const auto* token = token_at(text)) {
        end_literal();
        parts += fmt::format(" <[{}]>", token->second);
        text.remove_prefix(token->first.size());
        continue;
      }
      if (number != 0 && text.front() == number) {
        end_literal();
        parts += " /[0-9]{1,3}/";
      } else {
        literal += text.front();
      }
      text.remove_prefix(1);
    }
    end_literal();
    return parts;
  }

  [[nodiscard]] bool begins_with_token(std::string_view text) const { return token_at(text) != nullptr; }

 private:
  [[nodiscard]] const std::pair<const std::string, std::uint32_t>* token_at(std::string_view text) const {
    const auto found = std::ranges::find_if(tokens_, [&](const auto& one) { return text.starts_with(one.first); });
    return found == tokens_.end() ? nullptr : &*found;
  }

  const std::map<std::string, std::uint32_t>& tokens_;
};

// The rules for what comes before the answer: `thinking` ends at the first marker that ends it.
std::string thinking_rules(const AnswerParts& parts, const MarkedText& marked) {
  const AnswerFormat& format = parts.format;
  const std::string begin = parts.reasoning == ReasoningPart::is_open ? "" : marked.rule(format.reasoning_begin);
  const std::string_view blanks = format.has_channels ? "" : " /[ \\t\\r\\n]{1,8}/?";
  if (marked.begins_with_token(format.reasoning_end)) {
    return fmt::format("\nthinking:{} REASONING{}{}\nREASONING: /(.|\\n)*/", begin, marked.rule(format.reasoning_end),
                       blanks);
  }
  return fmt::format("\nthinking:{} reasoning{}\nreasoning[lazy]: /(.|\\n)*{}/", begin, blanks,
                     with_escapes(format.reasoning_end, R"(\.+*?()|[]{}^$/)"));
}

// `calls`, and what it consists of.
std::string call_rules(const AnswerParts& parts, const CallWriting& writing, const MarkedText& marked) {
  const bool is_required = parts.form.kind == OutputConstraint::Kind::none;
  std::string rules = fmt::format("\ncalls:{} call", marked.rule(writing.section_begin));
  if (parts.allows_several && writing.allows_several)
    rules += fmt::format(" ({} call)*", marked.rule(writing.separator));
  rules += marked.rule(writing.section_end) + "\ncall:";
  std::string schemas;
  constexpr char number = '#';
  for (std::size_t i = 0; i < parts.functions.size(); ++i) {
    const ToolFunction& function = parts.functions[i];
    if (!is_tool_name(function.name)) {
      throw Error(ErrorCode::invalid_input,
                  "a tool's name is not of 1 to 64 letters, digits, underscores, hyphens and dots");
    }
    const std::string arguments = is_required ? fmt::format("arguments_{}", i) : "arguments";
    const std::string begin = fmt::format("{}{}{}", writing.begin, function.name, writing.arguments);
    rules +=
        fmt::format("{}{} {}{}", i == 0 ? "" : " |", marked.rule(begin, number), arguments, marked.rule(writing.end));
    if (is_required) schemas += fmt::format("\n{}: %json {}", arguments, arguments_schema(function));
  }
  if (!is_required) schemas = "\narguments: %json {\"type\": \"object\"}";
  return rules + schemas;
}

}  // namespace

bool is_tool_name(std::string_view name) noexcept {
  constexpr std::size_t max_bytes = 64;
  return !name.empty() && name.size() <= max_bytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

ConstrainedAnswer constrained_answer(const AnswerParts& parts) {
  ConstrainedAnswer answer{.constraint = parts.form, .format = parts.format};
  const bool has_calls = !parts.functions.empty(), has_form = parts.form.kind != OutputConstraint::Kind::none;
  const bool has_reasoning = parts.reasoning != ReasoningPart::none;
  // Forms of calls that no grammar writes are read as JSON.
  const bool is_written =
      answer.format.tool_calls != ToolCallStyle::none && answer.format.tool_calls != ToolCallStyle::gemma;
  const CallWriting& writing = tool_call_format(is_written ? answer.format.tool_calls : ToolCallStyle::none).writing;
  if (has_calls && !is_written) answer.format.tool_calls = ToolCallStyle::llama;
  if (!has_reasoning && !answer.format.has_channels) answer.format.reasoning_begin = answer.format.reasoning_end = {};
  if (!has_calls && !has_reasoning && parts.format.content_begin.empty()) return answer;

  const MarkedText marked(parts.tokens);
  std::string start = "start:";
  if (has_reasoning) start += parts.reasoning == ReasoningPart::is_open ? " thinking" : " thinking?";
  start += has_calls && has_form ? " (calls | form)" : has_calls ? " calls" : " form";
  if (has_reasoning) start += thinking_rules(parts, marked);
  if (has_calls) start += call_rules(parts, writing, marked);
  if (has_form) {
    start += fmt::format("\nform:{} @form{}", marked.rule(parts.format.content_begin),
                         marked.rule(parts.format.content_end));
  } else {
    answer.constraint = {.kind = OutputConstraint::Kind::grammar};
  }
  answer.constraint.frame = start + "\n";
  return answer;
}

}  // namespace gpux::generation
