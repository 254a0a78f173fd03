#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "generation/chat_plan.h"
#include "server/protocols/anthropic/reasoning.h"
#include "server/protocols/request_json.h"

/// Requests of Anthropic's clients. Source: Anthropic's API reference, "Create a Message" and "Count tokens in a
/// Message".
namespace gpux::server::anthropic {

struct MessageRequest {
  std::string model;  ///< empty: not given
  generation::ChatRequest chat;
  Thinking thinking = Thinking::absent;
  std::optional<ReasoningEffort> effort;  ///< of output_config
  bool shows_thinking = true;             ///< thinking blocks have their text
  std::string form_member;  ///< what the form of the answer comes from: "output_config.format"; empty: it has none
  bool is_streamed = false;
};

/// Fields of POST /v1/messages.
[[nodiscard]] std::span<const Field> message_fields();

/// Fields of POST /v1/messages/count_tokens.
[[nodiscard]] std::span<const Field> token_count_fields();

/// Members whose names differ from those of other protocols, for NamedMembers.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> setting_names() noexcept;

/// Error invalid_input as of tei/requests.h.
MessageRequest read_message_request(std::string_view body, const BodyReading& reading = {});
MessageRequest read_token_count_request(std::string_view body, const BodyReading& reading = {});

}  // namespace gpux::server::anthropic
