#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generation/tool_constraint.h"
#include "gpux/chat.h"
#include "server/protocols/request_json.h"

/// The tools of requests for chats, which OpenAI's and Ollama's clients write alike.
namespace gpux::server {

enum class ToolChoice : std::uint8_t {
  none,
  automatic,  ///< the model decides
  required,   ///< the answer calls at least one, whatever the model would do
};

/// The tools of a request, and which of them the answer may call.
struct ToolUse {
  std::string json;                                 ///< the array as the request has it, for the chat template
  std::vector<generation::ToolFunction> functions;  ///< that may be called
  ToolChoice choice = ToolChoice::none;
  bool allows_several = true;  ///< calls in an answer
};

/// The most tools of a request, as of OpenAI.
inline constexpr std::size_t max_tools = 128;

/// What read_tool_choice() reads.
[[nodiscard]] std::span<const Field> tool_choice_fields();

/// The member "tools": an array of {"type": "function", "function": {"name", "description", "parameters", "strict"}}.
/// With tools the choice is automatic. `body`: the whole body, in which the tools are found as they are written: the
/// order of members counts. Error invalid_input.
ToolUse read_tools(Members& members, std::string_view body);

/// The members "tool_choice" and "parallel_tool_calls" of OpenAI. Error invalid_input.
void read_tool_choice(Members& members, ToolUse& tools);

/// The member of the object as it is written; empty where it is not there, or null. Error invalid_input.
std::string_view member_text(std::string_view object, std::string_view name);

}  // namespace gpux::server
