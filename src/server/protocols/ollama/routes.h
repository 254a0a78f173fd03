#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::ollama {

/// Of Ollama's clients.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::ollama
