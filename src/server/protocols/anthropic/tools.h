#pragma once

#include <string_view>

#include "gpux/chat.h"
#include "server/protocols/request_json.h"

/// The tools in requests of Anthropic's clients. Source: Anthropic's API reference, "Create a Message", members tools
/// and tool_choice.
namespace gpux::server::anthropic {

/// "tools", of {"name", "description", "input_schema"}, and "tool_choice". `body`: the whole body, in which schemas are
/// found as they are written: the order of members counts. Error invalid_input; tools of Anthropic's servers are
/// refused by their type.
void read_tools(Members& members, std::string_view body, ChatOptions& options);

}  // namespace gpux::server::anthropic
