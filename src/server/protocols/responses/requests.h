#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generation/chat_plan.h"
#include "server/protocols/request_json.h"
#include "server/protocols/responses/items.h"

/// Requests of POST /v1/responses. Source: OpenAI's API reference, "Create a model response".
namespace gpux::server::responses {

struct ResponseRequest {
  std::string model;  ///< empty: not given
  std::string instructions;
  std::vector<RequestedItem> input;
  std::string previous_response_id;  ///< empty: none
  bool is_stored = true;
  bool is_streamed = false;
  generation::ChatRequest chat;  ///< but for its messages
  std::string form_member;       ///< what the form of the answer comes from: "text.format", "tools"; empty: it has none
  /// Members of the answer that repeat the request, from ',"instructions":…' on, in one line.
  std::string repeated;
};

/// Fields of POST /v1/responses.
[[nodiscard]] std::span<const Field> response_fields();

/// Fields of POST /v1/responses/input_tokens, whose requests are read as those of responses that are not stored.
[[nodiscard]] std::span<const Field> token_count_fields();

/// Members whose names differ from those of other protocols, for NamedMembers.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> setting_names() noexcept;

/// Error invalid_input as of tei/requests.h; resource_exhausted as of read_items().
ResponseRequest read_response_request(std::string_view body, const BodyReading& reading = {},
                                      const std::shared_ptr<MemoryBudget>& memory = nullptr,
                                      std::span<const Field> fields = response_fields());

}  // namespace gpux::server::responses
