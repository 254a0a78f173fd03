#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::tei {

/// Of the clients of Hugging Face's text-embeddings-inference.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::tei
