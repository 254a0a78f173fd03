#include "server/protocols/called_function.h"

namespace gpux::server {

std::string called_function(const std::vector<ChatMessage>& messages, std::string_view call_id) {
  if (call_id.empty()) return {};
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    for (const ToolCall& call : message->tool_calls) {
      if (call.id == call_id) return call.name;
    }
  }
  return {};
}

}  // namespace gpux::server
