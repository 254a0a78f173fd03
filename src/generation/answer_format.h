#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::generation {

/// How a model writes the calls of functions into its answer.
enum class ToolCallStyle : std::uint8_t {
  none,
  hermes,   ///< <tool_call>{"name": …, "arguments": …}</tool_call>, for each call: Qwen, Hermes, SmolLM3
  mistral,  ///< [TOOL_CALLS] [{"name": …, "arguments": …}, …], or [TOOL_CALLS]name[ARGS]{…} for each call
  phi,      ///< <|tool_call|>[{…}, …]<|/tool_call|>, or functools[{…}, …]: Phi-4-mini, Granite 3
  llama,    ///< an answer that begins with {"name": …, "parameters": …}, also behind <|python_tag|>: Llama 3
  gemma,    ///< an answer with a block ```tool_code, ```tool_call or ```json, or that begins with {"name": …}: Gemma
};

/// Name of the style: "none", "hermes", …
std::string_view to_string(ToolCallStyle style) noexcept;

/// How a model writes its answer.
struct AnswerFormat {
  std::string reasoning_begin, reasoning_end;  ///< around what it thinks before it answers; empty: it does not
  ToolCallStyle tool_calls = ToolCallStyle::none;

  bool operator==(const AnswerFormat&) const = default;
};

/// The format of a model with this chat template, by the markers in its text. Pure.
AnswerFormat answer_format_of(std::string_view template_text);

/// The texts that separate the parts of an answer. Where the vocabulary has one of them as a special token, decoding
/// must not skip that token, or the parts cannot be told from each other.
std::vector<std::string> markers_of(const AnswerFormat& format);

/// Whether the prompt ends within reasoning: its template opened it, so that the answer begins with it.
bool opens_reasoning(const AnswerFormat& format, std::string_view prompt);

}  // namespace gpux::generation
