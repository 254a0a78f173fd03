#include "server/grpc/server.h"

#include <algorithm>
#include <climits>
#include <mutex>

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "base/log.h"
#include "gpux/error.h"
#include "server/grpc/methods.h"
#include "server/http/listening.h"
#include "server/http/tls_check.h"

namespace gpux::server {
namespace {

using ::grpc::ByteBuffer;
using ::grpc::CallbackServerContext;

::grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* begin(const std::shared_ptr<Call>& call, bool needs_key) {
  call->admit(needs_key);
  return call.get();
}

// Registers methods as generated code does, but all as streams of bytes.
class MethodTable : public ::grpc::Service {
 public:
  MethodTable(const std::shared_ptr<CallState>& state, std::span<const Method> methods) {
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const CalledMethod called{methods[i].path, &state->counts->add(methods[i].path, methods[i].type)};
      AddMethod(new ::grpc::internal::RpcServiceMethod(methods[i].path, ::grpc::internal::RpcMethod::BIDI_STREAMING,
                                                       nullptr));
      MarkMethodRawCallback(static_cast<int>(i),
                            new ::grpc::internal::CallbackBidiHandler<ByteBuffer, ByteBuffer>(
                                [state, method = methods[i], called](CallbackServerContext* context) {
                                  return begin(method.unary != nullptr
                                                   ? make_unary_call(state, *context, called, method.unary)
                                                   : method.make(state, *context, called),
                                               method.needs_key);
                                }));
    }
  }
};

class UnknownMethods : public ::grpc::CallbackGenericService {
 public:
  explicit UnknownMethods(std::shared_ptr<CallState> state)
      : state_(std::move(state)), counts_(&state_->counts->add("/unknown/unknown", "unary")) {}

 private:
  ::grpc::ServerGenericBidiReactor* CreateReactor(::grpc::GenericCallbackServerContext* context) override {
    return begin(make_unknown_call(state_, *context, {context->method(), counts_}), true);
  }

  std::shared_ptr<CallState> state_;
  GrpcMethodCounts* counts_;
};

// What the libraries have to say goes where gpux's log goes.
void route_log() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function([](gpr_log_func_args* line) { log::debug("grpc: {}", line->message); });
    google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*, int, const std::string& message) {
      log::debug("protobuf: {}", message);
    });
  });
}

std::shared_ptr<::grpc::ServerCredentials> credentials_of(const GrpcServerOptions& options) {
  if (options.tls_certificate.empty()) return ::grpc::InsecureServerCredentials();
  constexpr unsigned seconds_between_looks = 1;
  const auto files = std::make_shared<::grpc::experimental::FileWatcherCertificateProvider>(
      options.tls_key.string(), options.tls_certificate.string(), seconds_between_looks);
  ::grpc::experimental::TlsServerCredentialsOptions tls(files);
  tls.watch_identity_key_cert_pairs();
  tls.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return ::grpc::experimental::TlsServerCredentials(tls);
}

std::string address_of(const std::string& host, std::uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
}

std::chrono::system_clock::time_point on_system_clock(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(left);
}

}  // namespace

struct GrpcServer::Implementation {
  Implementation(ModelRepository& repository, const GrpcServerOptions& options)
      : state(std::make_shared<CallState>(repository, options)),
        inference(state, inference_methods()),
        health(state, health_methods()),
        unknown(state) {}

  std::shared_ptr<CallState> state;
  MethodTable inference, health;
  UnknownMethods unknown;
  std::unique_ptr<::grpc::Server> server;
  int port = 0;

  [[nodiscard]] std::vector<std::shared_ptr<LastingCall>> lasting() const {
    const std::lock_guard lock(state->mutex);
    return {state->lasting.begin(), state->lasting.end()};
  }
};

GrpcServer::GrpcServer(ModelRepository& repository, const GrpcServerOptions& options) {
  route_log();
  // gRPC does not say why it cannot listen: found out beforehand.
  if (!options.tls_certificate.empty()) http::check_tls_files(options.tls_certificate, options.tls_key);
  if (options.port != 0) (void)http::ListeningSocket::tcp(options.host, options.port);
  implementation_ = std::make_unique<Implementation>(repository, options);
  ::grpc::EnableDefaultHealthCheckService(false);
  ::grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  ::grpc::ServerBuilder builder;
  builder.AddListeningPort(address_of(options.host, options.port), credentials_of(options), &implementation_->port);
  builder.RegisterService(&implementation_->inference);
  builder.RegisterService(&implementation_->health);
  builder.RegisterCallbackGenericService(&implementation_->unknown);
  // Call looks at the size: gRPC does so no earlier, when it has the whole message, and would not say how it ended.
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  // Twice: once as bytes from the wire, once as the message that is made of them.
  ::grpc::ResourceQuota quota("gpux");
  quota.Resize(2 * static_cast<std::size_t>(std::max(options.max_in_flight_bytes, options.max_message_bytes)));
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // A second server must not share the port unnoticed.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  // A client that vanished is found out, and one that asks whether the server is there is not taken for an attacker.
  // The timeout is the socket's too (TCP_USER_TIMEOUT): it ends what a full socket holds up, where no ping gets out.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(std::clamp<std::int64_t>(
                                                                options.connection_timeout.count(), 1, INT_MAX)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  implementation_->server = builder.BuildAndStart();
  if (!implementation_->server || implementation_->port == 0) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("cannot listen for gRPC on port {} of host {}", options.port, options.host));
  }
}

GrpcServer::~GrpcServer() {
  if (implementation_->server) (void)drain(std::chrono::steady_clock::now());
}

std::uint16_t GrpcServer::port() const noexcept {
  return static_cast<std::uint16_t>(implementation_->port);
}

std::shared_ptr<const GrpcCounts> GrpcServer::counts() const noexcept {
  return implementation_->state->counts;
}

void GrpcServer::set_ready(bool ready) {
  implementation_->state->ready = ready;
  for (const auto& call : implementation_->lasting()) call->readiness_changed();
}

bool GrpcServer::drain(std::chrono::steady_clock::time_point deadline) {
  implementation_->state->ready = false;
  implementation_->state->going_down = true;
  for (const auto& call : implementation_->lasting()) call->end();
  implementation_->server->Shutdown(on_system_clock(deadline));
  return std::chrono::steady_clock::now() < deadline;
}

}  // namespace gpux::server
