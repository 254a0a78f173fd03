#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/http/server.h"
#include "server/served_model.h"

namespace gpux::server {

/// All models' counters in Prometheus' text format (version 0.0.4), under Triton's names where Triton has one and
/// gpux_… elsewhere.
std::string prometheus_text(std::span<const std::shared_ptr<ServedModel>> models, const http::Counters& transport);

}  // namespace gpux::server
