#include "server/grpc/server.h"

#include <algorithm>
#include <climits>
#include <mutex>
#include <thread>
#include <utility>

#include <absl/synchronization/mutex.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "base/log.h"
#include "gpux/error.h"
#include "server/grpc/connection_acceptor.h"
#include "server/grpc/methods.h"
#include "server/http/listening.h"
#include "server/http/server.h"
#include "server/http/tls_check.h"

namespace gpux::server {
namespace {

// Registers methods as generated code does, but all as streams of bytes.
class MethodTable : public ::grpc::Service {
 public:
  MethodTable(const std::shared_ptr<CallState>& state, std::span<const Method> methods) {
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const Method& method = methods[i];
      const int index = static_cast<int>(i);
      AddMethod(
          new ::grpc::internal::RpcServiceMethod(method.path, ::grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
      MarkMethodRaw(index);
      const CalledMethod called{method.path, &state->counts->add(method.path, method.type), method.is_traced};
      sources_.push_back({.request =
                              [this, index](Wire& wire, ::grpc::ServerCompletionQueue& queue, void* tag) {
                                RequestAsyncBidiStreaming(index, &wire.context, &wire.stream, &queue, &queue, tag);
                              },
                          .take =
                              [state, method, called](std::unique_ptr<Wire> wire) {
                                const auto call = method.unary != nullptr
                                                      ? make_unary_call(state, std::move(wire), called, method.unary)
                                                      : method.make(state, std::move(wire), called);
                                call->admit(method.key);
                              }});
    }
  }

  [[nodiscard]] const std::vector<CallSource>& sources() const noexcept { return sources_; }

 private:
  std::vector<CallSource> sources_;
};

// Whatever else is called.
class UnknownMethods {
 public:
  explicit UnknownMethods(const std::shared_ptr<CallState>& state) {
    source_.request = [this](Wire& wire, ::grpc::ServerCompletionQueue& queue, void* tag) {
      service_.RequestCall(&wire.context, &wire.stream, &queue, &queue, tag);
    };
    source_.take = [state, counts = &state->counts->add("/unknown/unknown", "unary")](std::unique_ptr<Wire> wire) {
      const CalledMethod called{wire->context.method(), counts};
      make_unknown_call(state, std::move(wire), called)->admit(KeyNeed::any);
    };
  }

  ::grpc::AsyncGenericService& service() noexcept { return service_; }

  [[nodiscard]] const CallSource& source() const noexcept { return source_; }

 private:
  ::grpc::AsyncGenericService service_;
  CallSource source_;
};

// What the libraries have to say goes where gpux's log goes.
void set_up_libraries() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function([](gpr_log_func_args* line) { log::debug("grpc: {}", line->message); });
    google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*, int, const std::string& message) {
      log::debug("protobuf: {}", message);
    });
    // On by default in Debian's build, at a twentieth of a request's cost.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  });
}

std::shared_ptr<::grpc::ServerCredentials> credentials_of(const GrpcServerOptions& options) {
  if (options.tls_certificate.empty()) return ::grpc::InsecureServerCredentials();
  constexpr unsigned seconds_between_looks = 1;
  const auto files = std::make_shared<::grpc::experimental::FileWatcherCertificateProvider>(
      options.tls_key.string(), options.tls_certificate.string(), options.tls_client_ca.string(),
      seconds_between_looks);
  ::grpc::experimental::TlsServerCredentialsOptions tls(files);
  tls.watch_identity_key_cert_pairs();
  if (options.tls_client_ca.empty()) {
    tls.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    tls.watch_root_certs();
    tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return ::grpc::experimental::TlsServerCredentials(tls);
}

constexpr std::size_t min_quota_bytes = std::size_t{256} << 20;

// From the last answer to the end of the connections: clients read it.
constexpr std::chrono::milliseconds last_answers_time{50};

}  // namespace

struct GrpcServer::Implementation {
  Implementation(ModelRepository& repository, const GrpcServerOptions& options)
      : readers({.threads = options.reading_threads}),
        state(std::make_shared<CallState>(repository, options, readers)),
        inference(state, inference_methods(options.shared_regions != nullptr)),
        health(state, health_methods()),
        unknown(state) {}

  RequestReaders readers;
  std::shared_ptr<CallState> state;
  MethodTable inference, health;
  UnknownMethods unknown;
  std::unique_ptr<CallQueue> queue;
  std::unique_ptr<::grpc::experimental::ExternalConnectionAcceptor> connections;  // of the server
  std::unique_ptr<::grpc::Server> server;
  std::unique_ptr<ConnectionAcceptor> acceptor;  // gives them
  std::uint16_t port = 0;
  bool is_shut_down = false;

  [[nodiscard]] std::vector<std::shared_ptr<LastingCall>> lasting() const {
    const std::lock_guard lock(state->mutex);
    return {state->lasting.begin(), state->lasting.end()};
  }
};

GrpcServer::GrpcServer(ModelRepository& repository, const GrpcServerOptions& options) {
  set_up_libraries();
  if (!options.tls_certificate.empty()) {
    http::check_tls_files(options.tls_certificate, options.tls_key, options.tls_client_ca);
  }
  http::ListeningSocket socket = http::ListeningSocket::tcp(options.host, options.port);
  implementation_ = std::make_unique<Implementation>(repository, options);
  implementation_->port = socket.port();
  ::grpc::EnableDefaultHealthCheckService(false);
  ::grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  ::grpc::ServerBuilder builder;
  implementation_->connections = builder.experimental().AddExternalConnectionAcceptor(
      ::grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials_of(options));
  builder.RegisterService(&implementation_->inference);
  builder.RegisterService(&implementation_->health);
  builder.RegisterAsyncGenericService(&implementation_->unknown.service());
  implementation_->queue = std::make_unique<CallQueue>(
      builder.AddCompletionQueue(),
      CallQueue::Options{.threads = options.threads != 0 ? options.threads : http::threads_by_default(),
                         .busy_poll = options.busy_poll});
  // Of server reflection.
  builder.SetSyncServerOption(::grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(::grpc::ServerBuilder::MAX_POLLERS, 1);
  // Call looks at the size: gRPC does so no earlier, when it has the whole message, and would not say how it ended.
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  // Messages on their way, of which gRPC does not tell how long they are: what comes of them is CallState::memory's.
  ::grpc::ResourceQuota quota("gpux");
  quota.Resize(std::max<std::size_t>(min_quota_bytes, 2 * options.max_message_bytes));
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  // A client that vanished is found out, and one that asks whether the server is there is not taken for an attacker.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(std::clamp<std::int64_t>(
                                                                options.connection_timeout.count(), 1, INT_MAX)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  if (options.max_connection_age.count() > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               static_cast<int>(std::min<std::int64_t>(options.max_connection_age.count(), INT_MAX)));
  }
  implementation_->server = builder.BuildAndStart();
  if (!implementation_->server) throw Error(ErrorCode::internal, "gRPC's server could not be made");
  CallQueue& queue = *implementation_->queue;
  for (const CallSource& source : implementation_->inference.sources()) queue.serve(source);
  for (const CallSource& source : implementation_->health.sources()) queue.serve(source);
  queue.serve(implementation_->unknown.source());
  queue.start();
  implementation_->acceptor = std::make_unique<ConnectionAcceptor>(
      std::move(socket), options.connection_timeout, [connections = implementation_->connections.get()](UniqueFd fd) {
        ::grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters accepted;
        accepted.fd = fd.release();  // gRPC closes it
        connections->HandleNewConnection(&accepted);
      });
}

GrpcServer::~GrpcServer() {
  if (!implementation_->server) return;
  (void)drain(std::chrono::steady_clock::now());
  implementation_->queue->end();
}

std::uint16_t GrpcServer::port() const noexcept {
  return implementation_->port;
}

std::shared_ptr<const GrpcCounts> GrpcServer::counts() const noexcept {
  return implementation_->state->counts;
}

void GrpcServer::set_ready(bool ready) {
  implementation_->state->ready = ready;
  for (const auto& call : implementation_->lasting()) call->readiness_changed();
}

bool GrpcServer::drain(std::chrono::steady_clock::time_point deadline) {
  CallState& state = *implementation_->state;
  state.ready = false;
  state.going_down = true;
  for (const auto& call : implementation_->lasting()) call->end();
  const bool ended = state.refuse_and_wait(deadline);
  // Once it shuts down, gRPC ends calls that come with CANCELLED, as if their clients had left. So no connection is
  // accepted from here on, and those that there are are closed before, when clients have read their answers: a call
  // that comes meanwhile fails with its connection, which is UNAVAILABLE to the client.
  if (implementation_->acceptor) implementation_->acceptor->stop();
  if (ended) std::this_thread::sleep_until(std::min(deadline, std::chrono::steady_clock::now() + last_answers_time));
  if (!std::exchange(implementation_->is_shut_down, true)) {
    grpc_server_cancel_all_calls(implementation_->server->c_server());
  }
  implementation_->server->Shutdown(std::chrono::system_clock::now());
  return ended;
}

}  // namespace gpux::server
