#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include "base/cancellation.h"
#include "gpux/error.h"
#include "server/grpc/call_queue.h"
#include "server/grpc/compression.h"
#include "server/grpc/message_scan.h"
#include "server/grpc/server.h"
#include "server/grpc/transfer_watch.h"
#include "server/http/server.h"
#include "server/metrics/grpc_counts.h"
#include "server/requests/api_keys.h"
#include "server/requests/caller.h"
#include "server/requests/request_readers.h"
#include "server/requests/request_trace.h"
#include "server/requests/request_work.h"
#include "server/telemetry/request_spans.h"

/// A call on its way through the server. All methods are served as streams of bytes, so that keys are asked for before
/// a message is read, and one that is no message is refused like any other mistake.
namespace gpux::server {

/// The gRPC status of an error: code and message, as listed in docs/serving.md.
::grpc::Status status_of(const Error& error);

/// What the span of a request has of the status that it ends with.
RequestSpans::End end_of(const ::grpc::Status& status);

/// A call that lasts until the client ends it.
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

/// State that all calls of a server share: models, options, memory budget, counters.
struct CallState {
  CallState(ModelRepository& models, GrpcServerOptions given, RequestReaders& reading)
      : repository(models),
        options(std::move(given)),
        readers(reading),
        transfers(options.message_timeout, options.min_bytes_per_second) {}

  /// Begins the work for a call. False where the server goes down and takes no more.
  [[nodiscard]] bool begin_work();
  void end_work();
  /// Begins to refuse calls, and waits for those that were begun before. True where they have ended by `deadline`.
  bool refuse_and_wait(std::chrono::steady_clock::time_point deadline);

  ModelRepository& repository;
  const GrpcServerOptions options;
  RequestReaders& readers;  ///< used by the queues' threads only
  std::atomic<bool> ready = true;
  std::atomic<bool> going_down = false;
  const std::shared_ptr<MemoryBudget> memory =
      options.memory ? options.memory : std::make_shared<MemoryBudget>(http::default_memory_bytes);

  std::mutex mutex;
  std::set<std::shared_ptr<LastingCall>> lasting;
  std::uint64_t working = 0;  ///< calls begun before going_down and not ended
  std::condition_variable without_work;

  const std::shared_ptr<GrpcCounts> counts = std::make_shared<GrpcCounts>();
  TransferWatch transfers;
  const MemoryReclaimer reclaimer{memory, [this] { transfers.release_memory(); }};
};

/// The method that a call is of. What it points to must outlive the call.
struct CalledMethod {
  std::string_view path;  ///< "/inference.GRPCInferenceService/ModelInfer"
  GrpcMethodCounts* counts = nullptr;
  bool is_traced = false;  ///< its calls are spans
};

/// Reserves `bytes` of CallState::memory. Error resource_exhausted beyond its limit.
MemoryShare memory_share(const CallState& state, std::uint64_t bytes);

template <typename Message>
::grpc::ByteBuffer write_message(const Message& message) {
  const ::grpc::Slice text(message.SerializeAsString());
  return {&text, 1};
}

/// Base class of all kinds of calls: reading, writing, deadline and end. Lives until gRPC has let go of it. The on_…
/// functions are called by the thread of the call's queue, one at a time, and never from within a function of this.
class Call : public std::enable_shared_from_this<Call>, private WatchedTransfer {
 public:
  Call(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire, const CalledMethod& method);

  /// Called once by what has made the call: asks for the key, if one is needed, then hands over to begin().
  void admit(KeyNeed need);

  [[nodiscard]] const std::shared_ptr<CallState>& state() const noexcept { return state_; }

  [[nodiscard]] std::chrono::steady_clock::time_point arrived() const noexcept { return arrived_; }

  [[nodiscard]] std::string_view method() const noexcept { return method_.path; }

  /// The client's; empty where it set none.
  [[nodiscard]] const std::optional<std::chrono::steady_clock::time_point>& deadline() const noexcept {
    return deadline_;
  }

  /// Who sends it: by the key or the certificate as it was accepted when the call came, and the connection's other end.
  [[nodiscard]] const Caller& caller() const noexcept { return caller_; }

  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

  /// Maximum size of a message of the client: a few kilobytes for methods that need no key.
  [[nodiscard]] std::uint64_t max_message_bytes() const noexcept { return max_message_bytes_; }

  /// Ends what is done for the call: its client has left, or its deadline has passed.
  [[nodiscard]] Cancellation cancellation() const { return Cancellation(gone_.get_token(), deadline_); }

  /// Shared state of the work for a request of the call: readers, memory, cancellation and deadline.
  [[nodiscard]] RequestWork work() const {
    RequestWork work{.readers = &state_->readers, .memory = state_->memory, .stop = gone_, .deadline = {}};
    work.deadline.bring_forward(deadline_);
    work.limited = limited_;
    work.spans = spans_;
    return work;
  }

 protected:
  /// The call may begin to read.
  virtual void begin() = 0;

  /// start_read() has a message, or there is none (any more).
  virtual void on_read(bool /*ok*/) {}

  /// Called when the message of start_write() has been sent, or the client has left.
  virtual void on_written(bool /*ok*/) {}

  /// The client has left, its deadline has passed, or the call was cut off: to be finished soon.
  virtual void on_gone() {}

  /// The call is over. No other function is called afterwards.
  virtual void on_done() {}

  /// Why the key of the call is not enough, as keys are now; empty: it is.
  [[nodiscard]] std::optional<KeyRefusal> key_problem(KeyNeed need) const;

  /// A request of the call that uses a model: counts it, and `limited` is what counts it from here; null where nothing
  /// does. What it is refused with; empty: it is not.
  [[nodiscard]] std::optional<LimitRefusal> begin_limited(std::shared_ptr<LimitedRequest>& limited) const;

  /// The spans of a request of the call, which came at that time; null: they are not recorded.
  [[nodiscard]] std::shared_ptr<RequestSpans> begin_spans(std::chrono::steady_clock::time_point came) const;

  /// Claims the end: true for the first that asks, who then has to finish.
  [[nodiscard]] bool claim_end() noexcept { return !ended_.exchange(true); }

  /// `message` is filled, then on_read() called.
  void start_read(::grpc::ByteBuffer& message);
  /// start_read() for the only message of a call. The call is cut off if the client does not send it within the limits
  /// of GrpcServerOptions.
  void start_only_read(::grpc::ByteBuffer& message);

  /// A message of the client has come. False where it is larger than it may be: the call is cut off.
  [[nodiscard]] bool take(const ::grpc::ByteBuffer& message);

  /// Runs `read` with a message that has come: at once, or where it is long on a thread of CallState::readers. Calls
  /// `failed` instead where the call is cancelled before its turn.
  void take_apart(::grpc::ByteBuffer& message, std::function<void()> read, std::function<void(const Error&)> failed);

  /// One at a time; on_written() is called at the end. If a client does not read the message within the limits of
  /// GrpcServerOptions, its call ends as if it had left. `memory` holds the message's share of the budget until then.
  void start_write(const ::grpc::ByteBuffer& message, MemoryShare memory);

  /// Reserves the memory that a message takes until the client has read it. Error resource_exhausted.
  [[nodiscard]] MemoryShare outgoing_memory(const ::grpc::ByteBuffer& message) const;

  /// Status of a call whose client has left.
  [[nodiscard]] ::grpc::Status left_status() const;

  /// Ends the call with this status. Requires claim_end(); nothing may be started afterwards.
  void finish(const ::grpc::Status& status);
  /// The same for a request beyond a limit, with the time to wait.
  void finish_refused(const LimitRefusal& refusal, const std::string& message);
  /// The same, bounded as start_write(), and for a request with a deadline by write_grace after it. Where memory is
  /// short, the call fails with UNAVAILABLE.
  void finish_with(const ::grpc::ByteBuffer& answer,
                   const std::optional<std::chrono::steady_clock::time_point>& deadline);

 private:
  void begin_or_refuse(KeyNeed need);
  [[nodiscard]] Credentials credentials() const;
  void give_up(GivenUp reason) override;
  [[nodiscard]] bool is_past_deadline() const;
  void cut_off(::grpc::StatusCode code, const std::string& reason);
  void prepare(const ::grpc::ByteBuffer& message, MemoryShare memory,
               std::chrono::steady_clock::time_point latest = std::chrono::steady_clock::time_point::max());
  void count_sent() noexcept;
  void let_go();
  void end();
  [[nodiscard]] ::grpc::StatusCode final_code() const;
  /// Keeps the failure for the console. Not of a call that needs no key or has none, or whose client has left.
  void keep_failure(::grpc::StatusCode code, const std::string& reason) const;

  std::shared_ptr<CallState> state_;
  std::unique_ptr<Wire> wire_;
  CalledMethod method_;
  std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::stop_source gone_;  // its client has left
  RequestNames names_;
  Caller caller_;     // set by admit()
  std::string peer_;  // for the log
  std::atomic<bool> ended_ = false;
  std::atomic<::grpc::StatusCode> cut_off_with_ = ::grpc::StatusCode::OK;
  ::grpc::StatusCode code_ = ::grpc::StatusCode::OK;
  std::uint64_t max_message_bytes_ = 0;
  bool needs_key_ = true;
  std::shared_ptr<LimitedRequest> limited_;  // of a call that is one request; null: nothing counts it
  std::shared_ptr<RequestSpans> spans_;      // of a call that is one request; null: it is not recorded
  std::string failure_;                      // for its span
  bool works_ = false;                       // counted by CallState::begin_work()
  ::grpc::ByteBuffer outgoing_;
  MemoryShare outgoing_memory_;
  std::size_t outgoing_bytes_ = 0, sent_bytes_ = 0;
  std::atomic<bool> is_awaiting_request_ = false;
  bool is_last_out_ = false;  // the answer went out with the end of the call
  QueuedOperation read_, written_, finished_;
  std::atomic<int> awaited_ = 3;  // before it ends: admit(), that gRPC has let go, finish(), and what was started
  std::shared_ptr<Call> self_;
};

/// Makes a message ready to be built: plain, without fields that its type does not have. The result is what it takes
/// once it is built. Errors invalid_input, also where it would take many times its size; resource_exhausted; those of
/// the call's cancellation.
MemoryShare prepare_message(const Call& call, ::grpc::ByteBuffer& buffer, const MessageScanner& scanner);

/// A message and what it takes.
template <typename Message>
struct HeldMessage {
  explicit HeldMessage(MemoryShare share) : memory(std::move(share)) {}

  MemoryShare memory;
  Message message;
};

/// Reads a request of that type, as prepare_message() does.
template <typename Message>
std::shared_ptr<Message> read_message(const Call& call, ::grpc::ByteBuffer& buffer) {
  static const MessageScanner scanner(*Message::descriptor());
  auto held = std::make_shared<HeldMessage<Message>>(prepare_message(call, buffer, scanner));
  if (!::grpc::SerializationTraits<Message>::Deserialize(&buffer, &held->message).ok()) {
    throw Error(ErrorCode::invalid_input, fmt::format("the request is no {} message", scanner.name()));
  }
  return {held, &held->message};
}

/// The place for the one answer to one message. All members from any thread. Let go without an answer, it answers
/// UNAVAILABLE.
class Answer {
 public:
  class Writer;

  explicit Answer(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {}

  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// Only the first of these counts, and none after the client has left. `deadline` is the request's.
  void respond(const ::grpc::ByteBuffer& message,
               const std::optional<std::chrono::steady_clock::time_point>& deadline = {}) const;
  void fail(const Error& error) const;
  /// Beyond a limit.
  void refuse(const LimitRefusal& refusal, const std::string& message) const;

  /// `callback` runs once when the client has left or its deadline has passed before the answer: at once where it has.
  void on_gone(std::function<void()> callback) const;

  [[nodiscard]] const Call& call() const;

 private:
  std::shared_ptr<Writer> writer_;
};

/// Does what a method promises; may throw Error, which is answered.
using UnaryHandler = void (*)(const std::shared_ptr<Answer>& answer, ::grpc::ByteBuffer& request);

std::shared_ptr<Call> make_unary_call(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                      const CalledMethod& method, UnaryHandler handler);

/// A method that the server does not have: UNIMPLEMENTED.
std::shared_ptr<Call> make_unknown_call(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                        const CalledMethod& method);

}  // namespace gpux::server
