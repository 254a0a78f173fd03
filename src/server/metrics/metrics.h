#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/http/server.h"
#include "server/metrics/grpc_counts.h"
#include "server/models/response_cache.h"
#include "server/models/served_model.h"
#include "server/requests/access.h"
#include "server/requests/audit_log.h"
#include "server/requests/request_limits.h"
#include "server/requests/route_figures.h"
#include "server/store_changes/store_jobs.h"
#include "server/telemetry/span_counts.h"

namespace gpux::server {

/// Counters of the transports. `grpc` is null if gRPC is not served.
struct TransportCounts {
  http::Counters http;
  std::shared_ptr<const GrpcCounts> grpc;
  std::map<std::string, std::uint64_t> ignored_members = {};  ///< of requests, by name: MemberRules::ignored()
  std::uint64_t unknown_members = 0;
  const StoreJobCounts* store_jobs = nullptr;  ///< null: requests do not change the store
  std::uint64_t uploaded_bytes = 0;            ///< that are kept now for models to be created
  const RouteFigures* routes = nullptr;        ///< null: nothing is known of them
  std::optional<SpanCounts> spans = {};        ///< of traces; empty: none are sent
  std::map<std::string, KeyCounts> keys = {};  ///< by the names of API keys: RequestLimiter::counts()
  AccessReloads reloads = {};                  ///< of the files of keys and limits
  AuditCounts audit = {};
  std::optional<ResponseCacheCounts> cache = {};  ///< empty: no answers are kept
};

/// Whether buckets of histograms name a trace of a request that they count, as OpenMetrics has it.
enum class WithExemplars : bool { no, yes };

/// All models' counters in Prometheus' text format (version 0.0.4), under Triton's names where Triton has one, those of
/// gRPC's interceptors where these have one, and gpux_… elsewhere. With exemplars it is not of that format.
std::string prometheus_text(std::span<const std::shared_ptr<ServedModel>> models, const TransportCounts& transport,
                            WithExemplars exemplars = WithExemplars::no);

/// A page of prometheus_text() as OpenMetrics 1.0 has it: families of counters without _total, and a mark at the end.
/// Pure.
std::string open_metrics_text(std::string_view page);

/// The counters of prometheus_text() as JSON, with the provider of each model.
std::string json_metrics(std::span<const std::shared_ptr<ServedModel>> models, const TransportCounts& transport);

/// The device that the session of a provider is on; otherwise the first that the provider lists. Empty: there is none.
std::string device_name(const ProviderAttempt& attempt);

enum class MetricFormat : std::uint8_t { prometheus, open_metrics, json };

/// What an Accept field asks for first; Prometheus' format where it names none. Pure.
MetricFormat metric_format(std::string_view accept);

}  // namespace gpux::server
