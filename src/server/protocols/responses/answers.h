#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "server/generation/answer_delta.h"
#include "server/generation/answer_events.h"
#include "server/protocols/response_store.h"

/// Responses as OpenAI's clients read them, whole and as events. Source: OpenAI's API reference, "The Response object"
/// and "Streaming events".
namespace gpux::server::responses {

/// What all forms of a response have.
struct ResponseHead {
  std::string id;            ///< "resp_…"
  std::int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::shared_ptr<const std::string> repeated;  ///< ResponseRequest::repeated
  bool is_stored = false;                       ///< the client wants it to be kept
};

/// Keeps a finished response with the items of its output; false: there is no room for it.
using KeepResponse = std::function<bool(const std::string& json, ConversationItems output)>;

/// Makes a response of the parts of its answer. `keep` is called once, at the end, where head.is_stored; the response
/// says whether it is kept. `memory`: for the items of its output.
std::string response_json(const ResponseHead& head, const std::vector<AnswerDelta>& parts, const AnswerUsage& usage,
                          const KeepResponse& keep, const std::shared_ptr<MemoryBudget>& memory = nullptr);

/// Writes a streamed response as server-sent events: the last one has the response as response_json() makes it. What
/// the answer takes until then is held of `memory`; null: no limit.
std::unique_ptr<AnswerEvents> response_events(ResponseHead head, KeepResponse keep,
                                              std::shared_ptr<MemoryBudget> memory);

}  // namespace gpux::server::responses
