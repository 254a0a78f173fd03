#pragma once

#include <span>

#include "server/protocols/route.h"

namespace gpux::server::kserve {

/// Routes of KServe's data plane, version 1, which TensorFlow Serving's REST API has, too. Version 2 is the Open
/// Inference Protocol.
[[nodiscard]] std::span<const Route> routes() noexcept;

}  // namespace gpux::server::kserve
