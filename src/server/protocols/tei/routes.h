#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::tei {

/// Routes for clients of Hugging Face's text-embeddings-inference.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::tei
