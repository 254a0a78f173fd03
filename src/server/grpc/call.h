#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include "gpux/error.h"
#include "server/grpc/compression.h"
#include "server/grpc/server.h"
#include "server/request_trace.h"

/// A call on its way through the server. All methods are served as streams of bytes, so that keys are asked for before
/// a message is read, and one that is no message is refused like any other mistake.
namespace gpux::server {

/// As it stands in docs/serving.md.
::grpc::Status status_of(const Error& error);

/// A call that goes on until the client ends it.
class LastingCall {
 public:
  LastingCall() = default;
  LastingCall(const LastingCall&) = delete;
  LastingCall& operator=(const LastingCall&) = delete;
  virtual ~LastingCall() = default;
  /// The server has become ready or ceased to be.
  virtual void readiness_changed() = 0;
  /// The server goes down: end as soon as what is in flight is answered.
  virtual void end() = 0;
};

/// What all calls of a server share.
struct CallState {
  CallState(ModelRepository& models, GrpcServerOptions given) : repository(models), options(std::move(given)) {}

  ModelRepository& repository;
  const GrpcServerOptions options;
  std::atomic<bool> ready = true;
  std::atomic<bool> going_down = false;
  std::atomic<std::uint64_t> held_bytes = 0;  ///< of requests in flight

  std::mutex mutex;
  std::set<std::shared_ptr<LastingCall>> lasting;
};

/// Bytes of a request while it is held. Error resource_exhausted beyond GrpcServerOptions::max_in_flight_bytes.
class HeldBytes {
 public:
  HeldBytes(std::shared_ptr<CallState> state, std::uint64_t bytes);

  ~HeldBytes() { state_->held_bytes -= bytes_; }

  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

 private:
  std::shared_ptr<CallState> state_;
  std::uint64_t bytes_;
};

/// A message and the place it takes.
template <typename Message>
struct HeldMessage {
  HeldMessage(const std::shared_ptr<CallState>& state, std::uint64_t size) : held(state, size) {}

  HeldBytes held;
  Message message;
};

/// Reads a request of that type. Errors invalid_input, resource_exhausted.
template <typename Message>
std::shared_ptr<Message> read_message(const std::shared_ptr<CallState>& state, ::grpc::ByteBuffer& buffer) {
  decompress(buffer, state->options.max_message_bytes);
  auto held = std::make_shared<HeldMessage<Message>>(state, buffer.Length());
  if (!::grpc::SerializationTraits<Message>::Deserialize(&buffer, &held->message).ok()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the request is no {} message", Message::descriptor()->full_name()));
  }
  return {held, &held->message};
}

template <typename Message>
::grpc::ByteBuffer write_message(const Message& message) {
  const ::grpc::Slice text(message.SerializeAsString());
  return {&text, 1};
}

/// What the kinds of calls have in common. `method` must live as long. Lives until gRPC has let go of it.
class Call : public ::grpc::ServerBidiReactor<::grpc::ByteBuffer, ::grpc::ByteBuffer>,
             public std::enable_shared_from_this<Call> {
 public:
  Call(std::shared_ptr<CallState> state, ::grpc::CallbackServerContext& context, std::string_view method);

  /// Called once by what has made the call: asks for the key, if one is needed, then hands over to begin().
  void admit(bool needs_key);

  void OnDone() override;

  [[nodiscard]] const std::shared_ptr<CallState>& state() const noexcept { return state_; }

  [[nodiscard]] std::chrono::steady_clock::time_point arrived() const noexcept { return arrived_; }

  [[nodiscard]] std::string_view method() const noexcept { return method_; }

  /// The client's; empty where it set none.
  [[nodiscard]] const std::optional<std::chrono::steady_clock::time_point>& deadline() const noexcept {
    return deadline_;
  }

 protected:
  /// The call may begin to read.
  virtual void begin() = 0;

  /// Claims the end: true for the first that asks, who then has to finish.
  [[nodiscard]] bool claim_end() noexcept { return !ended_.exchange(true); }

  /// After claim_end(); nothing may be started after it.
  void finish(const ::grpc::Status& status);
  void finish_with(const ::grpc::ByteBuffer& answer);

 private:
  // OnDone() is short and takes no lock: without a thread of gRPC's executor, which would have to be woken for it.
  bool InternalInlineable() override { return true; }

  std::shared_ptr<CallState> state_;
  ::grpc::CallbackServerContext& context_;
  std::string_view method_;
  std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  RequestNames names_;
  std::string peer_;  // for the log
  std::atomic<bool> ended_ = false;
  ::grpc::StatusCode code_ = ::grpc::StatusCode::OK;
  ::grpc::ByteBuffer last_;
  std::shared_ptr<Call> self_;
};

/// The place for the one answer to one message. All members from any thread. Let go without an answer, it answers
/// UNAVAILABLE.
class Answer {
 public:
  class Writer;

  explicit Answer(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {}

  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// Only the first of these counts, and none after the client has left.
  void respond(const ::grpc::ByteBuffer& message) const;
  void fail(const Error& error) const;

  /// `callback` runs once when the client has left or its deadline has passed before the answer: at once where it has.
  void on_gone(std::function<void()> callback) const;

  [[nodiscard]] const Call& call() const;

 private:
  std::shared_ptr<Writer> writer_;
};

/// Does what a method promises; may throw Error, which is answered.
using UnaryHandler = void (*)(const std::shared_ptr<Answer>& answer, ::grpc::ByteBuffer& request);

std::shared_ptr<Call> make_unary_call(std::shared_ptr<CallState> state, ::grpc::CallbackServerContext& context,
                                      std::string_view method, UnaryHandler handler);

/// A method that the server does not have: UNIMPLEMENTED.
std::shared_ptr<Call> make_unknown_call(std::shared_ptr<CallState> state, ::grpc::CallbackServerContext& context,
                                        std::string_view method);

}  // namespace gpux::server
