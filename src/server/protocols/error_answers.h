#pragma once

#include <string>

#include "gpux/error.h"
#include "server/http/message.h"
#include "server/protocols/route.h"
#include "server/requests/caller.h"
#include "server/requests/request_limits.h"

namespace gpux::server {

/// The response for an error, with the status and JSON of the protocol.
http::Response error_response(const Error& error, Protocol protocol);

/// The response to a request that is refused for its limits: 429 with Retry-After.
http::Response limit_response(const LimitRefusal& refusal, const std::string& message, Protocol protocol);

/// {"message", "type", "param", "code"}: the error object of OpenAI's answers.
std::string openai_error_json(const Error& error);

/// {"type": "error", "error": {"type", "message"}}: the body of Anthropic's errors.
std::string anthropic_error_json(const Error& error);

}  // namespace gpux::server
