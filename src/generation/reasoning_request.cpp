#include "generation/reasoning_request.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/format_message.h"
#include "generation/answer_format.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using enum ReasoningEffort;

// Switches of templates, for models that think or not.
constexpr std::array<std::string_view, 2> switches{"enable_thinking", "thinking"};
constexpr std::string_view levels = "reasoning_effort";
// gpt-oss: its template writes any text as its level, and the model has learnt three.
constexpr std::string_view harmony_mark = "<|channel|>";

bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n-+"), text.size()));
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

// The end of the text that begins with a quote at `at`, behind its last quote.
std::size_t end_of_quoted(std::string_view code, std::size_t at) {
  const char quote = code[at];
  for (++at; at < code.size() && code[at] != quote; ++at) {
    if (code[at] == '\\') ++at;
  }
  return std::min(at + 1, code.size());
}

// Whether the inside of a tag or expression reads the variable.
bool is_read_in(std::string_view code, std::string_view name) {
  for (std::size_t at = 0; at < code.size();) {
    if (code[at] == '\'' || code[at] == '"') {
      at = end_of_quoted(code, at);
      continue;
    }
    if (!is_of_word(code[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < code.size() && is_of_word(code[end])) ++end;
    const bool is_member = at > 0 && code[at - 1] == '.';
    const std::string_view before = without_blanks(code.substr(0, at)), after = without_blanks(code.substr(end));
    const bool is_target = (before == "set" || after.starts_with('=')) && !after.starts_with("==");
    if (code.substr(at, end - at) == name && !is_member && !is_target) return true;
    at = end;
  }
  return false;
}

std::string_view name_of(ReasoningEffort effort) {
  return effort == usual ? "usual" : effort_names.at(static_cast<std::size_t>(effort));
}

[[noreturn]] void refuse(ReasoningEffort effort, std::string_view reason) {
  throw Error(ErrorCode::invalid_input, format_message("{} is '{}', and the model {}", setting_named("reasoning"),
                                                       effort == usual ? "true" : name_of(effort), reason));
}

// The level that the model has learnt.
ReasoningEffort harmony_level(ReasoningEffort effort) {
  if (effort == none) refuse(effort, "always thinks before it answers; accepted: low, medium, high");
  if (effort == minimal) return low;
  return effort == xhigh ? high : effort;
}

}  // namespace

std::optional<ReasoningEffort> effort_named(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(effort_names, name);
  if (found == effort_names.end()) return std::nullopt;
  return static_cast<ReasoningEffort>(found - effort_names.begin());
}

bool reads_variable(std::string_view template_text, std::string_view name) {
  while (true) {
    const std::size_t begin = template_text.find('{');
    if (begin == std::string_view::npos || begin + 1 == template_text.size()) return false;
    const char kind = template_text[begin + 1];
    const std::string_view end = kind == '{' ? "}}" : kind == '%' ? "%}" : kind == '#' ? "#}" : "";
    template_text.remove_prefix(begin + 1);
    if (end.empty()) continue;
    template_text.remove_prefix(1);
    const std::string_view inside = template_text.substr(0, template_text.find(end));
    if (kind != '#' && is_read_in(inside, name)) return true;
    template_text.remove_prefix(inside.size());
  }
}

std::vector<TemplateVariable> reasoning_variables(ReasoningEffort effort, std::string_view template_text) {
  std::vector<TemplateVariable> variables;
  const bool thinks = effort != none && effort != minimal;
  for (const std::string_view name : switches) {
    if (reads_variable(template_text, name)) variables.push_back({std::string(name), thinks ? "true" : "false"});
  }
  const bool has_switch = !variables.empty();
  if (reads_variable(template_text, levels)) {
    if (effort == usual || (has_switch && !thinks)) return variables;
    const bool is_harmony = template_text.find(harmony_mark) != std::string_view::npos;
    const ReasoningEffort level = is_harmony ? harmony_level(effort) : effort;
    variables.push_back({std::string(levels), fmt::format("\"{}\"", name_of(level))});
    return variables;
  }
  if (has_switch) return variables;
  const bool always_thinks = !answer_format_of(template_text).reasoning_end.empty();
  if (!always_thinks && effort != none) {
    refuse(effort, "does not think before it answers; accepted: null, none, false");
  }
  if (always_thinks && effort == none) refuse(effort, "always thinks before it answers; accepted: null, true");
  if (always_thinks && effort != usual) refuse(effort, "has no levels of thinking; accepted: null, true");
  return variables;
}

}  // namespace gpux::generation
