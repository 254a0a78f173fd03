#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/recent_log.h"
#include "server/protocols/service_state.h"
#include "server/requests/failed_requests.h"

namespace gpux::server::console {

/// The server and its models as JSON: state, verdict, abilities, counters, histograms, memory, devices, worker
/// processes. Histograms are counts of their buckets, of which the page computes percentiles between two answers;
/// `bounds` are the upper bounds of the buckets in seconds. Without paths of this machine.
std::string state_json(ServiceState& service);

/// The failed requests and the log as JSON, the oldest first. Times are milliseconds since 1970. Without paths of this
/// machine: who has a key may not know where its files are. The fields "path" of the log are those of requests, and
/// stay. Pure.
std::string records_json(std::span<const FailedRequest> failures, std::span<const log::RecentLine> lines);

/// "embed", "chat", …: the ability as the page names it.
std::string_view name_of(TextAbility ability) noexcept;

}  // namespace gpux::server::console
