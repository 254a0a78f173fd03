#pragma once

#include <span>
#include <string>
#include <string_view>

#include "generation/answer_format.h"
#include "gpux/output_constraint.h"

namespace gpux::generation {

/// A function that the model may call.
struct ToolFunction {
  std::string name;        ///< is_tool_name()
  std::string parameters;  ///< a JSON schema as text; empty: it takes none
};

/// 1 to 64 letters, digits, and _, - or a dot: a name that is written the same in JSON and in a grammar.
[[nodiscard]] bool is_tool_name(std::string_view name) noexcept;

/// How an answer is written that has to call a tool.
struct ToolCallForm {
  OutputConstraint constraint;  ///< the whole answer is one call; with `allows_several` one or more
  AnswerFormat format;          ///< what AnswerParser reads it with
};

/// Markers of the reasoning that may precede the calls of an answer.
struct ReasoningPart {
  std::string begin, end;  ///< the markers around it, which are texts to the tokenizer; empty: there is none
  bool is_open = false;    ///< the prompt has the first marker: the answer begins with reasoning, and ends it
};

/// The form of an answer that calls one of the functions, with arguments that are valid against its parameters, behind
/// an optional part with reasoning: <tool_call>{"name": …, "arguments": …}</tool_call> where `style` is hermes, else
/// {"name": …, "arguments": …}, which the style llama has with "parameters"; several calls have "; " between them. The
/// other styles have markers that are special tokens, which no constraint allows. Pure. Error invalid_input: parameters
/// that are not the schema of an object.
ToolCallForm tool_call_form(std::span<const ToolFunction> functions, ToolCallStyle style, bool allows_several,
                            const ReasoningPart& reasoning = {});

}  // namespace gpux::generation
