#pragma once

#include "server/metrics/metrics.h"
#include "server/protocols/service_state.h"

namespace gpux::server {

/// The counters of the transports for a page of metrics, as they are now.
[[nodiscard]] TransportCounts transport_counts(ServiceState& service);

}  // namespace gpux::server
