#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/generation/answer_delta.h"
#include "server/generation/answer_events.h"

/// Messages as Anthropic's clients read them, whole and as events. Source: Anthropic's API reference, "Create a
/// Message" and "Streaming Messages".
namespace gpux::server::anthropic {

struct MessageHead {
  std::string id;  ///< "msg_…"
  std::string model;
  std::size_t max_tokens = 0;  ///< of the request: an answer that ends before has filled the context
  bool shows_thinking = true;
};

/// Makes a message of the parts of its answer.
std::string message_json(const MessageHead& head, const std::vector<AnswerDelta>& parts, const AnswerUsage& usage);

/// Writes a streamed message as server-sent events.
std::unique_ptr<AnswerEvents> message_events(MessageHead head, std::size_t prompt_tokens);

}  // namespace gpux::server::anthropic
