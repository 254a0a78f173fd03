#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "server/http/server.h"
#include "server/metrics/grpc_counts.h"
#include "server/metrics/rendered_page.h"
#include "server/models/model_repository.h"
#include "server/models/response_cache.h"
#include "server/protocols/response_store.h"
#include "server/protocols/route.h"
#include "server/requests/access.h"
#include "server/requests/audit_log.h"
#include "server/requests/browser_access.h"
#include "server/requests/failed_requests.h"
#include "server/requests/member_rules.h"
#include "server/requests/request_limits.h"
#include "server/requests/request_readers.h"
#include "server/requests/route_figures.h"
#include "server/requests/shared_regions.h"
#include "server/requests/time_limits.h"
#include "server/store_changes/store_changes.h"
#include "server/telemetry/span_counts.h"
#include "server/telemetry/tracer.h"

namespace gpux::server {

struct ServiceOptions {
  std::string default_model;  ///< for routes without a name; empty: the only one that fits
  std::shared_ptr<Access> access = std::make_shared<Access>();                   ///< who may send requests; not null
  std::shared_ptr<RequestLimiter> limiter = std::make_shared<RequestLimiter>();  ///< of gRPC, too; not null
  std::shared_ptr<AuditLog> audit = std::make_shared<AuditLog>();                ///< the same
  BrowserAccess browser_access;                                                  ///< of requests over TCP
  std::chrono::milliseconds probe_timeout{2000};  ///< a health probe of the device takes at most this
  std::chrono::milliseconds probe_after{5000};    ///< a request that succeeded this lately stands for a probe
  bool log_requests = false;                      ///< one line of the log for each
  bool is_strict = false;                         ///< requests with unknown members are refused
  bool has_console = false;                       ///< /console answers, and requests that fail are kept for it
  bool console_is_for_this_machine = false;       ///< without keys it answers requests of this machine alone
  std::shared_ptr<FailedRequests> failures = std::make_shared<FailedRequests>();  ///< those; of gRPC, too
  std::uint64_t read_here_bytes = 64 << 10;       ///< longer JSON is not read on the thread that calls handle()
  std::uint64_t tokenize_here_bytes = 2 << 10;    ///< the same of bodies with texts
  unsigned reading_threads = 2;                   ///< for those, at most
  std::size_t max_reading = 1024;                 ///< requests that may wait for them; beyond: refused
  std::chrono::milliseconds keep_alive{10000};    ///< a client that waits for text gets a sign of life this often
  std::shared_ptr<SharedRegions> shared_regions;  ///< those that clients register; of gRPC, too. Null: none are served
  ResponseStoreOptions stored_responses;
  std::uint64_t response_cache_bytes = 0;  ///< of answers that may be given again; 0: none are kept
  StoreChangeOptions store_changes;
  /// For what requests hold while they are prepared: that of the transports. Null: no limit.
  std::shared_ptr<MemoryBudget> memory;
  std::shared_ptr<const Tracer> tracer;               ///< null: requests are not traced
  std::function<SpanCounts()> span_counts = nullptr;  ///< of its exporter, for the metrics; null: there is none
};

/// State that all HTTP requests share. Outlives each of them.
struct ServiceState {
  ServiceState(ModelRepository& models, ServiceOptions settings, std::span<const Route> all_routes)
      : repository(models),
        options(std::move(settings)),
        routes(all_routes),
        member_rules(options.is_strict),
        response_cache(options.response_cache_bytes),
        responses(options.stored_responses, options.memory,
                  [this](auto when, std::function<void()> call) { limits.at(when, std::move(call)); }),
        changes(options.store_changes,
                [this](auto when, std::function<void()> call) { limits.at(when, std::move(call)); }),
        readers({.threads = options.reading_threads, .max_tasks = options.max_reading}) {}

  ModelRepository& repository;
  const ServiceOptions options;
  const std::span<const Route> routes;       ///< of all protocols
  std::function<http::Counters()> counters;  ///< of the transport; null: there are none
  std::shared_ptr<const GrpcCounts> grpc_counts;
  std::atomic<bool> is_ready = true;     ///< new traffic should come; false from the moment a drain begins
  std::atomic<bool> is_stopped = false;  ///< what is still read and prepared ends with interrupted
  MemberRules member_rules;
  RouteFigures route_figures;
  ResponseCache response_cache;
  ResponseStore responses;
  StoreChanges changes;
  RenderedPage metrics_text, metrics_open, metrics_json, console_state;
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point started_at = std::chrono::system_clock::now();
  TimeLimits limits;
  RequestReaders readers;  // last: its tasks use the rest
};

}  // namespace gpux::server
