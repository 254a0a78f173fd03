#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"
#include "server/protocols/request_json.h"

/// The functions that a response may call. Source: OpenAI's API reference, "Create a model response", members tools and
/// tool_choice.
namespace gpux::server::responses {

/// The member "tools": an array of {"type": "function", "name", "description", "parameters", "strict"}. Sets
/// ChatOptions::tools, and returns the names of the functions. `body`: the whole body, in which parameters are found as
/// they are written: the order of members counts. Error invalid_input; other types are refused by name.
std::vector<std::string> read_tools(Members& members, std::string_view body, ChatOptions& options);

/// The members "tool_choice" and "parallel_tool_calls". `functions`: what read_tools() returned. Error invalid_input.
void read_tool_choice(Members& members, const std::vector<std::string>& functions, ChatOptions& options);

}  // namespace gpux::server::responses
