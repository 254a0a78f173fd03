#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::openai {

/// Routes for OpenAI's clients.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::openai
