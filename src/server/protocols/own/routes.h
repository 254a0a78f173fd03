#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::own {

/// Routes of gpux's own protocol.
[[nodiscard]] std::span<const Route> routes() noexcept;

/// Routes of the OpenAPI document and page.
[[nodiscard]] std::span<const Route> document_routes() noexcept;

}  // namespace gpux::server::own
