#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::open_inference_v2 {

/// Routes of the Open Inference Protocol, version 2.
[[nodiscard]] std::span<const Route> routes() noexcept;

/// Routes of Triton's extension for loading and unloading models.
[[nodiscard]] std::span<const Route> region_routes() noexcept;
[[nodiscard]] std::span<const Route> repository_routes() noexcept;

}  // namespace gpux::server::open_inference_v2
