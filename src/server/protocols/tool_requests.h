#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"
#include "server/protocols/request_json.h"

/// The tools of requests for chats, which OpenAI's and Ollama's clients write alike.
namespace gpux::server {

/// Fields that read_tool_choice() reads.
[[nodiscard]] std::span<const Field> tool_choice_fields();

/// The member "tools": an array of {"type": "function", "function": {"name", "description", "parameters", "strict"}}.
/// Sets ChatOptions::tools, and returns the names of the functions. `body`: the whole body, in which the tools are
/// found as they are written: the order of members counts. Error invalid_input.
std::vector<std::string> read_tools(Members& members, std::string_view body, ChatOptions& options);

/// The members "tool_choice" and "parallel_tool_calls" of OpenAI. `functions`: what read_tools() returned. Of tools
/// that "allowed_tools" leaves out the model hears nothing: ChatOptions::tools loses them. Error invalid_input.
void read_tool_choice(Members& members, std::span<const std::string> functions, ChatOptions& options);

}  // namespace gpux::server
