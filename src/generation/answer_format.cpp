#include "generation/answer_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "generation/tool_call_formats.h"

namespace gpux::generation {
namespace {

constexpr std::pair<std::string_view, std::string_view> apriel_response{"[BEGIN FINAL RESPONSE]",
                                                                        "[END FINAL RESPONSE]"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> reasoning_markers{{
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<seed:think>", "</seed:think>"},
    {"Here are my reasoning steps:", apriel_response.first},
}};

constexpr std::pair<std::string_view, std::string_view> response_markers{"<|START_RESPONSE|>", "<|END_RESPONSE|>"};

// What is within <tool_call>, and is no JSON: forms that are not known, but for those that come before.
constexpr std::array<std::string_view, 4> other_style_marks{"<function=", "<arg_key>", "<tool_sep>", "<invoke name="};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ToolCallStyle style_of(std::string_view template_text) {
  const auto is_in = [&](std::string_view mark) { return has(template_text, mark); };
  const auto formats = tool_call_formats();
  const auto found =
      std::ranges::find_if(formats, [&](const auto& one) { return std::ranges::all_of(one.template_marks, is_in); });
  if (found == formats.end()) return ToolCallStyle::none;
  const bool is_other = found->style == ToolCallStyle::hermes && std::ranges::any_of(other_style_marks, is_in);
  return is_other ? ToolCallStyle::none : found->style;
}

std::string_view without_blanks_at_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

std::string_view to_string(ToolCallStyle style) noexcept {
  return tool_call_format(style).name;
}

AnswerFormat answer_format_of(std::string_view template_text) {
  AnswerFormat format;
  format.tool_calls = style_of(template_text);
  if (format.tool_calls == ToolCallStyle::harmony) {
    format.has_channels = true;
    format.reasoning_begin = "<|channel|>analysis<|message|>";
    format.reasoning_end = "<|end|><|start|>assistant";
    format.content_begin = "<|channel|>final<|message|>";
    return format;
  }
  for (const auto& [begin, end] : reasoning_markers) {
    // Templates that take the reasoning out of earlier answers name its end only.
    if (!has(template_text, begin) && !has(template_text, end)) continue;
    format.reasoning_begin = begin;
    format.reasoning_end = end;
    break;
  }
  if (format.reasoning_end == apriel_response.first) format.content_end = apriel_response.second;
  if (has(template_text, response_markers.first)) {
    format.content_begin = response_markers.first;
    format.content_end = response_markers.second;
  }
  return format;
}

std::vector<std::string> markers_of(const AnswerFormat& format) {
  std::vector<std::string> markers;
  const auto add = [&](std::string_view marker) {
    if (!marker.empty()) markers.emplace_back(marker);
  };
  if (!format.has_channels) {
    for (const auto& marker : {format.reasoning_begin, format.reasoning_end, format.content_begin, format.content_end})
      add(marker);
  }
  const ToolCallFormat& calls = tool_call_format(format.has_channels ? ToolCallStyle::harmony : format.tool_calls);
  for (const std::string_view marker : calls.around) add(marker);
  for (const std::string_view marker : calls.within) add(marker);
  for (const CallBlock& block : calls.blocks) {
    add(block.begin);
    add(block.end);
  }
  add(calls.separator);
  return markers;
}

bool opens_reasoning(const AnswerFormat& format, std::string_view prompt) {
  return !format.reasoning_begin.empty() && without_blanks_at_end(prompt).ends_with(format.reasoning_begin);
}

bool closes_reasoning(const AnswerFormat& format, std::string_view prompt) {
  if (format.reasoning_end.empty() || format.has_channels) return false;
  return without_blanks_at_end(prompt).ends_with(format.reasoning_end);
}

}  // namespace gpux::generation
