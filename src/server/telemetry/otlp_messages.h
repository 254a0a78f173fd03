#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/telemetry/span.h"

/// Bodies of OTLP over HTTP, in protobuf. Source: OpenTelemetry Protocol Specification 1.9. Pure.
namespace gpux::server {

using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;

/// ExportTraceServiceRequest.
[[nodiscard]] std::string trace_message(std::span<const Span> spans, const ResourceAttributes& resource);

/// ExportMetricsServiceRequest with what a page in Prometheus' text format has: counters as cumulative sums, gauges,
/// and histograms with explicit bounds. `start`: when the counters began. Histograms of generated texts also come under
/// the names of the semantic conventions of generative models. A line that is not of this format is left out.
[[nodiscard]] std::string metrics_message(std::string_view prometheus_text, const ResourceAttributes& resource,
                                          std::chrono::system_clock::time_point start,
                                          std::chrono::system_clock::time_point now);

/// What a receiver says that it refused of a message, with its reason; 0: nothing.
struct Refused {
  std::int64_t count = 0;
  std::string reason;
};

[[nodiscard]] Refused read_refused(std::string_view answer);

}  // namespace gpux::server
