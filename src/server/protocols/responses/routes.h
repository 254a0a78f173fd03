#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::responses {

/// Routes of OpenAI's Responses API: POST /v1/responses, and what becomes of the responses that are kept.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::responses
