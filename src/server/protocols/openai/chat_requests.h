#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "generation/chat_plan.h"
#include "server/protocols/generation_fields.h"
#include "server/protocols/request_json.h"

namespace gpux::server {

/// POST /v1/chat/completions. Source: OpenAI's API reference, "Create chat completion", and vLLM's server for the
/// settings that OpenAI has not.
struct OpenAiChat {
  std::string model;  ///< empty: not given
  generation::ChatRequest chat;
  std::string form_member;       ///< constraint_member(), or "tools" where a call is required
  std::string reasoning_member;  ///< read_reasoning()
  std::size_t answers = 1;
  StreamSettings stream;
};

[[nodiscard]] std::span<const Field> chat_fields();

/// Error invalid_input as of tei/requests.h. Parts of messages other than texts are refused by their type;
/// "echo" and "best_of" are refused.
OpenAiChat read_chat(std::string_view body, const BodyReading& reading = {});

}  // namespace gpux::server
