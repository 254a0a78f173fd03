#include "generation/answer_format.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpux::generation {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> reasoning_markers{{
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
}};

// What a template has that asks for calls in a style; the first that is found counts.
constexpr std::array<std::pair<std::string_view, ToolCallStyle>, 7> style_marks{{
    {"[TOOL_CALLS]", ToolCallStyle::mistral},
    {"<|tool_call|>", ToolCallStyle::phi},
    {"functools[", ToolCallStyle::phi},
    {"<tool_call>", ToolCallStyle::hermes},
    {"<|python_tag|>", ToolCallStyle::llama},
    {"<|start_header_id|>ipython", ToolCallStyle::llama},
    {"<start_of_turn>", ToolCallStyle::gemma},
}};

// What is within the tags of the styles above, and is no JSON: Qwen3-Coder, GLM 4.5, Hunyuan, MiniMax.
constexpr std::array<std::string_view, 4> other_style_marks{"<function=", "<arg_key>", "<tool_sep>", "<invoke name="};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::string_view to_string(ToolCallStyle style) noexcept {
  switch (style) {
    case ToolCallStyle::none:
      return "none";
    case ToolCallStyle::hermes:
      return "hermes";
    case ToolCallStyle::mistral:
      return "mistral";
    case ToolCallStyle::phi:
      return "phi";
    case ToolCallStyle::llama:
      return "llama";
    case ToolCallStyle::gemma:
      return "gemma";
  }
  return "none";
}

AnswerFormat answer_format_of(std::string_view template_text) {
  AnswerFormat format;
  for (const auto& [begin, end] : reasoning_markers) {
    // Templates that take the reasoning out of earlier answers name its end only.
    if (!has(template_text, begin) && !has(template_text, end)) continue;
    format.reasoning_begin = begin;
    format.reasoning_end = end;
    break;
  }
  const auto is_in = [&](std::string_view mark) { return has(template_text, mark); };
  if (std::ranges::any_of(other_style_marks, is_in)) return format;
  for (const auto& [mark, style] : style_marks) {
    if (!has(template_text, mark)) continue;
    format.tool_calls = style;
    break;
  }
  return format;
}

std::vector<std::string> markers_of(const AnswerFormat& format) {
  std::vector<std::string> markers;
  if (!format.reasoning_end.empty()) markers = {format.reasoning_begin, format.reasoning_end};
  const auto add = [&](std::initializer_list<std::string> more) { markers.insert(markers.end(), more); };
  switch (format.tool_calls) {
    case ToolCallStyle::hermes:
      add({"<tool_call>", "</tool_call>"});
      break;
    case ToolCallStyle::mistral:
      add({"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"});
      break;
    case ToolCallStyle::phi:
      add({"<|tool_call|>", "<|/tool_call|>"});
      break;
    case ToolCallStyle::llama:
      add({"<|python_tag|>"});
      break;
    case ToolCallStyle::none:
    case ToolCallStyle::gemma:
      break;
  }
  return markers;
}

bool opens_reasoning(const AnswerFormat& format, std::string_view prompt) {
  if (format.reasoning_begin.empty()) return false;
  const std::size_t last = prompt.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with(format.reasoning_begin);
}

}  // namespace gpux::generation
