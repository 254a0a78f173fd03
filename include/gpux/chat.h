#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpux {

/// A call of a function that the model asks for.
struct ToolCall {
  std::string id;    ///< as the tool's message has it in tool_call_id; may be empty
  std::string name;  ///< of the function
  /// A JSON object as text; empty: no arguments. In a message that is sent back anything else, as what a model did not
  /// end, is given to the chat template as a text, or as an argument "arguments" where the template takes no text.
  std::string arguments;
};

/// A message of a conversation, in OpenAI's terms. All texts are UTF-8.
struct ChatMessage {
  std::string role;  ///< system, user, assistant, tool, and what else the model's template knows
  std::string content;
  std::string reasoning;             ///< of an assistant: what it thought before the content
  std::vector<ToolCall> tool_calls;  ///< of an assistant
  std::string tool_call_id;          ///< of a tool: the call that it answers
  std::string name;                  ///< of a tool: the function; of others, who speaks
};

/// A part of an answer, as it becomes certain. The parts of all deltas together are the answer's ChatMessage.
struct ChatDelta {
  /// What a delta adds to the answer.
  enum class Kind : std::uint8_t {
    content,    ///< `text` is appended to the content
    reasoning,  ///< `text` is appended to the reasoning
    tool_call,  ///< call `index` begins: `id` and `name`
    arguments,  ///< `text` is appended to the arguments of call `index`
  };

  Kind kind = Kind::content;
  std::string text;
  std::size_t index = 0;
  std::string id, name;

  bool operator==(const ChatDelta&) const = default;
};

/// Whether an answer calls functions.
enum class ToolChoice : std::uint8_t {
  automatic,  ///< the model decides
  none,       ///< the model is not shown the tools
  required,   ///< the answer is nothing but calls, with arguments that are valid against the function's parameters, and
              ///< reasoning before them where the model thinks first
};

/// How much a model thinks before it answers, from nothing to as much as it can.
enum class ReasoningEffort : std::uint8_t {
  none,
  minimal,
  low,
  medium,
  high,
  xhigh,
  usual,  ///< it thinks, as much as it does on its own
};

/// Tools, template variables and the tool choice of a conversation.
struct ChatOptions {
  std::string tools;            ///< a JSON array of functions in OpenAI's form; empty: none
  std::string template_values;  ///< a JSON object: more variables of the template, as enable_thinking; empty: none
  bool add_generation_prompt = true;  ///< end with the beginning of the assistant's answer
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_name = {};        ///< with ToolChoice::required: the function that is called, once; empty: any
  bool allows_several_calls = true;  ///< calls behind the first one are left out otherwise
  /// Becomes variables of the template, as far as it knows some and `template_values` has not. Empty: the template's
  /// own default. An effort that the template cannot ask for is refused.
  std::optional<ReasoningEffort> reasoning = {};
  /// The last message, which is an assistant's with content and without calls, is continued instead of answered: the
  /// prompt ends with its content, and the answer is what follows. `add_generation_prompt` has no effect then.
  bool continues_last_message = false;
};

}  // namespace gpux
