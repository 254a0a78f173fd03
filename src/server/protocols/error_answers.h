#pragma once

#include <string>

#include "gpux/error.h"
#include "server/http/message.h"
#include "server/protocols/route.h"

namespace gpux::server {

/// The response for an error, with the status and JSON of the protocol.
http::Response error_response(const Error& error, Protocol protocol);

/// {"message", "type", "param", "code"}: the error object of OpenAI's answers.
std::string openai_error_json(const Error& error);

/// {"type": "error", "error": {"type", "message"}}: the body of Anthropic's errors.
std::string anthropic_error_json(const Error& error);

}  // namespace gpux::server
