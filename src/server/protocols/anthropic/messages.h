#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"
#include "server/protocols/request_json.h"

/// The conversation in requests of Anthropic's clients. Source: Anthropic's API reference, "Create a Message", members
/// system and messages.
namespace gpux::server::anthropic {

/// "system" and "messages" as messages of a chat: each result of a tool is a message of its own, and the texts of a
/// message between them are lines of one. `body`: the whole body, in which inputs of tools are found as they are
/// written: the order of members counts. Errors invalid_input that name the place; blocks of other types are refused by
/// name.
std::vector<ChatMessage> read_conversation(Members& members, std::string_view body);

/// Whether the last message is the assistant's, which begins the answer. Error invalid_input where it has no text, or
/// calls tools.
bool continues_last_message(const std::vector<ChatMessage>& messages);

}  // namespace gpux::server::anthropic
