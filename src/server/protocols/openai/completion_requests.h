#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "server/protocols/generation_fields.h"
#include "server/protocols/generation_request.h"
#include "server/protocols/openai/answers.h"
#include "server/protocols/request_json.h"

namespace gpux::server {

/// POST /v1/completions. Source: OpenAI's API reference, "Create completion", and vLLM's server for the settings that
/// OpenAI has not.
struct CompletionRequest {
  std::string model;  ///< empty: not given
  Continuation continuation;
  std::string form_member;  ///< constraint_member()
  std::size_t answers = 1;  ///< to each prompt
  CompletionParts parts;
  StreamSettings stream;
};

[[nodiscard]] std::span<const Field> completion_fields();

/// Reads the body of POST /v1/completions. Error invalid_input as of tei/requests.h. A "best_of" beyond "n" is refused.
CompletionRequest read_completion(std::string_view body, const BodyReading& reading = {});

}  // namespace gpux::server
