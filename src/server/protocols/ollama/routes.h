#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::ollama {

/// Routes for Ollama's clients.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::ollama
