#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/telemetry/sampler.h"

namespace gpux::server {

/// Where the data of a signal goes: OTLP over HTTP, in protobuf.
struct OtlpTarget {
  std::string url;  ///< "http://localhost:4318/v1/traces"
  std::vector<std::pair<std::string, std::string>> headers;
  std::chrono::milliseconds timeout{10'000};  ///< of one request
  bool compresses = false;                    ///< by gzip
  std::filesystem::path ca_file;              ///< trusted instead of the system's authorities; empty: the default
  std::filesystem::path certificate, key;     ///< of the client; empty: none
};

/// What the variables OTEL_… say.
struct TelemetrySettings {
  std::optional<OtlpTarget> traces, metrics;  ///< empty: not sent
  Sampler sampler;
  bool reads_parent = true;                                   ///< traceparent of requests
  std::vector<std::pair<std::string, std::string>> resource;  ///< attributes, service.name first
  std::size_t max_queue = 2048, max_batch = 512;              ///< spans
  std::chrono::milliseconds schedule_delay{5000};             ///< between two requests with spans
  std::chrono::milliseconds metric_interval{60'000};
};

/// Reads the variables; `variable` gives the value of one, empty where it is not set. Data is sent if an endpoint is
/// set, or OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER is "otlp". `service_name`: of a server whose variables give
/// none. Error usage that names the variable: a value that is not accepted. Pure. Source: OpenTelemetry Specification
/// 1.49, "Environment Variable Specification" and "OTLP Exporter Configuration".
[[nodiscard]] TelemetrySettings read_telemetry_settings(
    const std::function<std::string(const std::string& name)>& variable, const std::string& service_name);

}  // namespace gpux::server
