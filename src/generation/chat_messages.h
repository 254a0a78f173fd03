#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"

namespace gpux::generation {

/// A conversation as JSON: a list of OpenAI's messages, indented, with a newline at the end. An assistant's reasoning
/// is `reasoning_content`.
std::string to_json(std::span<const ChatMessage> messages);

/// The reverse. `content` may be null or missing. Error invalid_input, which names the message and the member: of the
/// wrong type, or unknown.
std::vector<ChatMessage> read_messages(std::string_view json);

}  // namespace gpux::generation
