#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::anthropic {

/// Routes of Anthropic's Messages API.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::anthropic
