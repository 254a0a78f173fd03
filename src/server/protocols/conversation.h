#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"
#include "server/protocols/tool_requests.h"

namespace gpux::server {

/// A conversation to continue, whatever its protocol.
struct Conversation {
  std::vector<ChatMessage> messages;  ///< at least one
  ChatOptions options;                ///< but for its tools
  ToolUse tools;
};

/// The function that the call with this id, of an earlier message, calls; empty where there is none.
std::string called_function(const std::vector<ChatMessage>& messages, std::string_view call_id);

}  // namespace gpux::server
