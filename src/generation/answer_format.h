#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::generation {

/// How a model writes the calls of functions into its answer: tool_call_formats.h has the form of each.
enum class ToolCallStyle : std::uint8_t {
  none,
  hermes,         ///< <tool_call>{"name": …, "arguments": …}</tool_call>, for each call: Qwen, Hermes, SmolLM3
  mistral,        ///< [TOOL_CALLS] [{"name": …, "arguments": …}, …]
  mistral_named,  ///< [TOOL_CALLS]name[ARGS]{…} for each call
  phi,            ///< <|tool_call|>[{…}, …]<|/tool_call|>, or functools[{…}, …]: Phi-4-mini, Granite 3
  llama,          ///< an answer that begins with {"name": …, "parameters": …}, also behind <|python_tag|>: Llama 3
  gemma,    ///< an answer with a block ```tool_code, ```tool_call or ```json, or that begins with {"name": …}: Gemma
  coder,    ///< <tool_call><function=name><parameter=key>value</parameter></function></tool_call>: Qwen3-Coder,
            ///< Qwen 3.5, Nemotron 3
  seed,     ///< the same in <seed:tool_call>: Seed-OSS
  minimax,  ///< <minimax:tool_call><invoke name="…"><parameter name="…">value</parameter></invoke>: MiniMax-M2
  glm,      ///< <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>: GLM 4.5 to 4.7
  kimi,     ///< <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>: Kimi K2
  deepseek_v3,  ///< <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, and {…} in a block ```json: DeepSeek-V3, R1
  deepseek,  ///< <｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>: DeepSeek-V3.1
  command,   ///< <|START_ACTION|>[{"tool_name": …, "parameters": …}]<|END_ACTION|>: Command R7B, Command A
  lfm,       ///< <|tool_call_start|>[name(key=value)]<|tool_call_end|>: LFM2
  apriel,    ///< <tool_calls>[{"name": …, "arguments": …}]</tool_calls>: Apriel
  harmony,   ///< <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>: gpt-oss
};

/// Name of the style: "none", "hermes", …
std::string_view to_string(ToolCallStyle style) noexcept;

/// How a model writes its answer.
struct AnswerFormat {
  std::string reasoning_begin, reasoning_end;  ///< around what it thinks before it answers; empty: it does not
  ToolCallStyle tool_calls = ToolCallStyle::none;
  std::string content_begin = {}, content_end = {};  ///< around the text of an answer; empty: nothing is
  bool has_channels = false;                         ///< all of it is in messages with channels, as of gpt-oss

  bool operator==(const AnswerFormat&) const = default;
};

/// The format of a model with this chat template, by the markers in its text. Pure.
AnswerFormat answer_format_of(std::string_view template_text);

/// The texts that separate the parts of an answer. Where the vocabulary has one of them as a special token, decoding
/// must not skip that token, or the parts cannot be told from each other.
std::vector<std::string> markers_of(const AnswerFormat& format);

/// Whether the prompt ends within reasoning: its template opened it, so that the answer begins with it.
bool opens_reasoning(const AnswerFormat& format, std::string_view prompt);

/// Whether the prompt ends behind reasoning: its template closed it, so that the answer has none.
bool closes_reasoning(const AnswerFormat& format, std::string_view prompt);

}  // namespace gpux::generation
