#pragma once

#include <string>

#include "gpux/error.h"

namespace gpux::server {

/// {"message", "type", "param", "code"}: the error object of OpenAI's answers.
std::string openai_error_json(const Error& error);

}  // namespace gpux::server
