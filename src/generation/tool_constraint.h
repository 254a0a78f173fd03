#pragma once

#include <cstdint>
#include <map>
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

/// Reasoning before an answer that has a form.
enum class ReasoningPart : std::uint8_t {
  none,
  may_come,  ///< the model may begin with it
  is_open,   ///< the prompt has its first marker: the answer begins with it, and ends it
};

/// What an answer consists of that a constraint lets through.
struct AnswerParts {
  AnswerFormat format;                          ///< how the model answers on its own
  std::map<std::string, std::uint32_t> tokens;  ///< markers of the format that are special tokens
  ReasoningPart reasoning = ReasoningPart::none;
  std::span<const ToolFunction> functions;  ///< none: no calls
  bool allows_several = true;               ///< calls
  OutputConstraint form = {};               ///< of the text of an answer that calls nothing; none: it has to call
};

/// How an answer is written, and read.
struct ConstrainedAnswer {
  OutputConstraint constraint;
  AnswerFormat format;  ///< what AnswerParser reads it with
};

/// The constraint of an answer that is calls of the functions, or a text of the form, behind an optional part with
/// reasoning. Calls are written as tool_call_formats.h has it for the style of the format, and as {"name": …,
/// "arguments": …} where it has none, with "; " between them. Where a call is required, its arguments are valid against
/// the function's parameters; else they are any object, as in answers without a form. Pure. Error invalid_input:
/// parameters that are not the schema of an object.
ConstrainedAnswer constrained_answer(const AnswerParts& parts);

}  // namespace gpux::generation
