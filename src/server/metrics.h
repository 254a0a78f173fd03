#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/http/server.h"
#include "server/served_model.h"

namespace gpux::server {

/// All models' counters in Prometheus' text format (version 0.0.4), under Triton's names where Triton has one and
/// gpux_… elsewhere.
std::string prometheus_text(std::span<const std::shared_ptr<ServedModel>> models, const http::Counters& transport);

/// The same counts as JSON, with the provider of each model.
std::string json_metrics(std::span<const std::shared_ptr<ServedModel>> models, const http::Counters& transport);

/// Whether an Accept field asks for JSON rather than text.
bool prefers_json(std::string_view accept);

}  // namespace gpux::server
