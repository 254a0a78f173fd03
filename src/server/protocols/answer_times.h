#pragma once

#include <chrono>

#include "runtime/scheduling/scheduler.h"
#include "server/http/message.h"

namespace gpux::server {

/// Adds header fields with the times of the request in its phases.
void add_times(http::Response& response, const runtime::InferTimes& times,
               std::chrono::steady_clock::time_point arrived);

}  // namespace gpux::server
