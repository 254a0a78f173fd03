#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "gpux/chat.h"
#include "gpux/generator.h"
#include "server/protocols/generation_fields.h"
#include "server/protocols/tool_requests.h"

namespace gpux::server {

/// A conversation to continue, whatever its protocol.
struct Conversation {
  std::vector<ChatMessage> messages;  ///< at least one
  ChatOptions options;                ///< but for its tools
  ToolUse tools;
};

/// POST /v1/chat/completions. Source: OpenAI's API reference, "Create chat completion", and vLLM's server for the
/// settings that OpenAI has not.
struct ChatRequest {
  std::string model;  ///< empty: not given
  Conversation conversation;
  GenerationSettings settings;
  std::string form_member;  ///< constraint_member(), or "tools" where a call is required
  std::size_t answers = 1;
  StreamSettings stream;
};

/// Error invalid_input as of text_requests.h. Parts of messages other than texts are refused by their type;
/// "continue_final_message", "echo" and "best_of" are refused.
ChatRequest read_chat(std::string_view body, const Cancellation& cancellation = {});

/// The function that the call with this id, of an earlier message, calls; empty where there is none.
std::string called_function(const std::vector<ChatMessage>& messages, std::string_view call_id);

}  // namespace gpux::server
