#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::own {

/// Of gpux's own protocol.
[[nodiscard]] std::span<const Route> routes() noexcept;

/// What the server tells of all routes.
[[nodiscard]] std::span<const Route> document_routes() noexcept;

}  // namespace gpux::server::own
