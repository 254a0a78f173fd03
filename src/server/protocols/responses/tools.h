#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "gpux/chat.h"
#include "server/protocols/request_json.h"

/// The functions that a response may call. Source: OpenAI's API reference, "Create a model response", members tools and
/// tool_choice.
namespace gpux::server::responses {

/// The functions of a request by their names, each with the namespace that it is in; empty: in none.
using NamedFunctions = std::map<std::string, std::string, std::less<>>;

/// The member "tools": an array of {"type": "function", "name", "description", "parameters", "strict"}, and of
/// {"type": "namespace", "name", "description", "tools"} with more of them, whose names have to differ all the same.
/// Sets ChatOptions::tools. `body`: the whole body, in which parameters are found as they are written: the order of
/// members counts. Error invalid_input; other types are refused by name.
NamedFunctions read_tools(Members& members, std::string_view body, ChatOptions& options);

/// The members "tool_choice" and "parallel_tool_calls". `functions`: what read_tools() returned. Error invalid_input.
void read_tool_choice(Members& members, const NamedFunctions& functions, ChatOptions& options);

}  // namespace gpux::server::responses
