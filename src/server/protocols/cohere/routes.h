#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::cohere {

/// Routes for clients that rank documents with Cohere's or Jina's API.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::cohere
