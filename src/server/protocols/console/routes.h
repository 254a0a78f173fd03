#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::console {

/// The routes of the console: its page, and the figures that the page shows. Without ServiceOptions::has_console they
/// are not found. The files of the page need no key, as they have nothing of the server in them.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::console
