#pragma once

#include <chrono>

#include "runtime/scheduling/scheduler.h"
#include "server/http/message.h"

namespace gpux::server {

/// Where the request's time went, as fields of the answer.
void add_times(http::Response& response, const runtime::InferTimes& times,
               std::chrono::steady_clock::time_point arrived);

}  // namespace gpux::server
