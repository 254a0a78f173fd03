#pragma once

#include <string>

#include "gpux/error.h"
#include "server/http/message.h"
#include "server/protocols/route.h"

namespace gpux::server {

/// In the protocol's own shape and status.
http::Response error_response(const Error& error, Protocol protocol);

/// {"message", "type", "param", "code"}: the error object of OpenAI's answers.
std::string openai_error_json(const Error& error);

}  // namespace gpux::server
