#pragma once

#include <string>

#include "server/protocols/call.h"

/// Routes about the health of the server, as several protocols have them.
namespace gpux::server {

/// Whether the process answers.
void answer_live(const RouteCall& call);

/// Whether every model answers, or that of the path.
void answer_ready(const RouteCall& call);

/// {"ready", "live"} and what is not ready; 200 or 503.
void respond_readiness(http::Exchange& exchange, bool ready, const std::string& not_ready);

}  // namespace gpux::server
