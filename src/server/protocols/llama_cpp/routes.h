#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::llama_cpp {

/// Routes of llama.cpp's server that no other protocol has, and of vLLM's for tokens. POST /tokenize is also
/// text-embeddings-inference's.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::llama_cpp
