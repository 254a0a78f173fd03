#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "server/metrics/grpc_counts.h"
#include "server/models/model_repository.h"
#include "server/models/probe.h"
#include "server/requests/access.h"
#include "server/requests/audit_log.h"
#include "server/requests/failed_requests.h"
#include "server/requests/request_limits.h"
#include "server/requests/shared_regions.h"
#include "server/telemetry/tracer.h"

namespace gpux::server {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";  ///< an address or a name; "0.0.0.0" and "::" for all
  std::uint16_t port = 8081;       ///< 0: a free one
  /// PEM files, both or none. Read again when they have changed.
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  /// PEM: clients need a certificate of one of these. Empty: they need none. Read again when it has changed.
  std::filesystem::path tls_client_ca;
  /// Threads that read and write; 0: http::threads_by_default().
  unsigned threads = 0;
  std::chrono::microseconds busy_poll{50};  ///< as of http::ServerOptions
  /// Longer messages are not taken apart on those threads, but on these.
  std::uint64_t read_here_bytes = 256 << 10;
  unsigned reading_threads = 2;
  std::shared_ptr<Access> access = std::make_shared<Access>();                   ///< who may send requests; not null
  std::shared_ptr<RequestLimiter> limiter = std::make_shared<RequestLimiter>();  ///< of HTTP, too; not null
  std::shared_ptr<AuditLog> audit = std::make_shared<AuditLog>();                ///< the same
  std::shared_ptr<const Tracer> tracer;                                          ///< null: calls are not traced
  ProbeLimits probe;                                          ///< of the health service and the Ready methods
  bool log_requests = false;                                  ///< one line of the log for each
  std::shared_ptr<FailedRequests> failures;                   ///< keeps calls that fail; null: none are kept
  std::shared_ptr<SharedRegions> shared_regions;              ///< null: shared memory is not served
  std::uint64_t max_message_bytes = std::uint64_t{64} << 20;  ///< of a request, also when decompressed
  /// For what requests and answers hold, with whatever else takes from it; null: one of http::default_memory_bytes.
  /// Beyond it: UNAVAILABLE.
  std::shared_ptr<MemoryBudget> memory;
  std::size_t max_stream_requests = 64;            ///< of one stream in flight; beyond: not read
  std::chrono::milliseconds watch_interval{1000};  ///< Health.Watch looks so often
  /// The client may take this long to take a message and besides a second for every `min_bytes_per_second` of it; then
  /// the call ends with DEADLINE_EXCEEDED. Kept to within a twentieth. It may take as long to send the request of a
  /// call that has one, which counts as one of `max_message_bytes`: how long it is, it tells only when it is there.
  std::chrono::milliseconds message_timeout{10'000};
  std::uint64_t min_bytes_per_second = 128 << 10;
  /// A connection whose other end acknowledges nothing of what was sent, or has no room for it, so long is closed.
  std::chrono::milliseconds connection_timeout{20'000};
  /// A client has to connect anew after so long, give or take a tenth; its calls go on until they end. gRPC can tell
  /// it of no drain otherwise. 0: never.
  std::chrono::milliseconds max_connection_age{0};
};

/// The Open Inference Protocol over gRPC (open_inference.proto), gRPC's health service and server reflection.
/// Metadata `x-request-id` of an answer is the client's own or a new one.
class GrpcServer {
 public:
  /// Binds, listens and answers from here on, on threads of its own. The repository must outlive the server.
  /// Errors as of http::Server.
  GrpcServer(ModelRepository& repository, const GrpcServerOptions& options);
  /// Ends now: what is in flight is cut off.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Counters per method, the last one for methods that do not exist; without the calls of server reflection, and
  /// without what gRPC refuses before it has a method. May be kept longer than the server.
  [[nodiscard]] std::shared_ptr<const GrpcCounts> counts() const noexcept;

  /// Whether new traffic should come; what watches the server's health hears of it at once.
  void set_ready(bool ready);

  /// Takes no new call, ends streams when what they have in flight is answered, and waits for that. True where all
  /// have ended by `deadline`; the rest is cut off. Blocks.
  bool drain(std::chrono::steady_clock::time_point deadline);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace gpux::server
