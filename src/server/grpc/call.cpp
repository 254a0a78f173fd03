#include "server/grpc/call.h"

#include <algorithm>

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "base/log.h"
#include "base/utf8_prefix.h"
#include "server/requests/api_keys.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;
using ::grpc::Status;
using ::grpc::StatusCode;

std::string_view view(const ::grpc::string_ref& text) {
  return {text.data(), text.size()};
}

std::optional<std::string_view> metadata_of(const ::grpc::ServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional(view(found->second));
}

std::optional<Clock::time_point> deadline_of(const ::grpc::ServerContext& context) {
  using System = std::chrono::system_clock;
  const System::time_point deadline = context.deadline();
  // Far away counts as none: the clocks' difference would overflow.
  const System::time_point now = System::now();
  if (deadline > now + std::chrono::hours(24 * 365)) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline - now);
}

// As HTTP has it: "127.0.0.1:40312", "[::1]:40312". gRPC writes "ipv4:127.0.0.1:40312", "ipv6:%5B::1%5D:40312".
std::string peer_name(const std::string& uri) {
  const std::string peer = uri.substr(uri.find(':') + 1);
  return http::percent_decoded(peer).value_or(peer);
}

// Of a message where no key is asked for, as sent and decompressed.
constexpr std::uint64_t small_message_bytes = 4 << 10;
// Smaller answers are not worth counting.
constexpr std::uint64_t small_answer_bytes = 4 << 10;
constexpr std::string_view infer_method = "/inference.GRPCInferenceService/ModelInfer";
// What a message may become, in multiples of its largest size: numbers of a byte become eight.
constexpr std::uint64_t max_message_growth = 8;

}  // namespace

Status status_of(const Error& error) {
  StatusCode code = StatusCode::INTERNAL;
  switch (error.code()) {
    case ErrorCode::usage:
    case ErrorCode::invalid_config:
    case ErrorCode::invalid_input:
      code = StatusCode::INVALID_ARGUMENT;
      break;
    case ErrorCode::invalid_model:
      code = StatusCode::FAILED_PRECONDITION;
      break;
    case ErrorCode::not_found:
      code = StatusCode::NOT_FOUND;
      break;
    case ErrorCode::deadline_exceeded:
      code = StatusCode::DEADLINE_EXCEEDED;
      break;
    case ErrorCode::permission:
      code = StatusCode::UNAUTHENTICATED;
      break;
    case ErrorCode::provider_unavailable:
    case ErrorCode::resource_exhausted:
    case ErrorCode::network:
    case ErrorCode::interrupted:
      code = StatusCode::UNAVAILABLE;
      break;
    case ErrorCode::internal:
    case ErrorCode::storage:
      break;
  }
  return {code, error.message()};
}

RequestSpans::End end_of(const Status& status) {
  const StatusCode code = status.error_code();
  return grpc_end(code, grpc_code_names.at(static_cast<std::size_t>(code)), status.error_message());
}

MemoryShare memory_share(const CallState& state, std::uint64_t bytes) {
  MemoryShare share(state.memory);
  if (share.grow(bytes)) return share;
  const std::uint64_t held = state.memory->held_bytes();
  state.memory->reclaim();
  throw Error(ErrorCode::resource_exhausted,
              fmt::format("requests and answers hold {} of the {} bytes that they may hold together: try later", held,
                          state.memory->limit_bytes()));
}

MemoryShare prepare_message(const Call& call, ::grpc::ByteBuffer& buffer, const MessageScanner& scanner) {
  const CallState& state = *call.state();
  const std::uint64_t max_bytes = call.max_message_bytes();
  const Cancellation cancellation = call.cancellation();
  MemoryShare plain(state.memory);
  decompress(buffer, max_bytes, plain, cancellation);
  const std::uint64_t most = std::max(max_message_growth * max_bytes, max_bytes + small_message_bytes);
  MessageScan scan;
  {
    ::grpc::ProtoBufferReader reader(&buffer);
    scan = scanner.scan(reader, most);
  }
  if (scan.memory_bytes > most) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the message of {} bytes would take more than {} in memory: it has too many parts",
                            buffer.Length(), most));
  }
  MemoryShare share = memory_share(state, scan.memory_bytes);
  if (scan.has_unknown_fields) {
    const MemoryShare copies = memory_share(state, 2 * buffer.Length());
    std::vector<::grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) throw Error(ErrorCode::internal, "a message cannot be read");
    std::string text;
    text.reserve(buffer.Length());
    for (const ::grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    slices.clear();
    buffer.Clear();
    const ::grpc::Slice known(scanner.known_fields(text));
    buffer = ::grpc::ByteBuffer(&known, 1);
  }
  cancellation.check();
  return share;
}

bool CallState::begin_work() {
  const std::lock_guard lock(mutex);
  if (going_down) return false;
  ++working;
  return true;
}

void CallState::end_work() {
  const std::lock_guard lock(mutex);
  if (--working == 0) without_work.notify_all();
}

bool CallState::refuse_and_wait(Clock::time_point deadline) {
  std::unique_lock lock(mutex);
  going_down = true;
  return without_work.wait_until(lock, deadline, [this] { return working == 0; });
}

Call::Call(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire, const CalledMethod& method)
    : state_(std::move(state)), wire_(std::move(wire)), method_(method), deadline_(deadline_of(wire_->context)) {
  ++method_.counts->started;
  names_ = name_request(metadata_of(wire_->context, "x-request-id").value_or(""),
                        metadata_of(wire_->context, "traceparent"));
  if (state_->options.log_requests) peer_ = wire_->context.peer();
  read_ = [this](bool ok) {
    if (is_awaiting_request_) {
      state_->transfers.remove(*this);
      is_awaiting_request_ = false;
    }
    on_read(ok);
    let_go();
  };
  written_ = [this](bool ok) {
    state_->transfers.remove(*this);
    if (ok) count_sent();
    outgoing_.Clear();
    outgoing_memory_.release();
    on_written(ok);
    let_go();
  };
  finished_ = [this](bool) { let_go(); };
}

void Call::admit(KeyNeed need) {
  self_ = shared_from_this();
  needs_key_ = need != KeyNeed::none;
  // Protocol Buffers have a bound of their own.
  max_message_bytes_ =
      std::min<std::uint64_t>(needs_key_ ? state_->options.max_message_bytes : small_message_bytes, INT32_MAX);
  works_ = state_->begin_work();
  wire_->when_gone([this] {
    if (wire_->context.IsCancelled()) {
      // What is past its deadline is counted as such.
      if (!is_past_deadline()) gone_.request_stop();
      on_gone();
    }
    let_go();
  });
  begin_or_refuse(need);
  let_go();
}

// The texts are of the call.
Credentials Call::credentials() const {
  const ::grpc::ServerContext& context = wire_->context;
  return {.authorization = metadata_of(context, "authorization").value_or(""),
          .x_api_key = metadata_of(context, "x-api-key").value_or(""),
          .certificate_name = {},
          .peer = {}};
}

std::optional<KeyRefusal> Call::key_problem(KeyNeed need) const {
  const Credentials sent = credentials();
  return key_refusal(state_->options.access->rules()->keys, need, sent.authorization, sent.x_api_key);
}

std::optional<LimitRefusal> Call::begin_limited(std::shared_ptr<LimitedRequest>& limited) const {
  const std::shared_ptr<const AccessRules> rules = state_->options.access->rules();
  std::optional<LimitRefusal> refusal = state_->options.limiter->admit(caller_, rules->limits);
  if (!refusal) limited = state_->options.limiter->begin(caller_, rules->limits, refusal);
  return refusal;
}

std::shared_ptr<RequestSpans> Call::begin_spans(Clock::time_point came) const {
  const Tracer* tracer = state_->options.tracer.get();
  if (tracer == nullptr) return nullptr;
  const std::string_view path = method_.path.substr(1);
  auto spans = tracer->begin(std::string(path), metadata_of(wire_->context, "traceparent"), came);
  if (!spans) return nullptr;
  const std::size_t slash = path.find('/');
  spans->set("rpc.system", std::string("grpc"));
  spans->set("rpc.service", std::string(path.substr(0, slash)));
  spans->set("rpc.method", std::string(path.substr(slash + 1)));
  spans->set("client.address", caller_.address);
  spans->set("gpux.request.id", names_.id);
  return spans;
}

void Call::begin_or_refuse(KeyNeed need) {
  ::grpc::ServerContext& context = wire_->context;
  const std::shared_ptr<const AccessRules> rules = state_->options.access->rules();
  Credentials sent = credentials();
  const std::string peer = peer_name(context.peer());
  sent.peer = peer;
  const auto auth = context.auth_context();
  const auto certificate_names = auth->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  if (!certificate_names.empty()) sent.certificate_name = view(certificate_names.front());
  caller_ = caller_of(rules->keys, sent);
  caller_.request_id = names_.id;
  if (method_.is_traced) spans_ = begin_spans(arrived_);
  // The span that is recorded is the one in the answer to the client.
  if (spans_ && !names_.traceparent.empty()) names_.traceparent = spans_->context().traceparent();
  context.AddInitialMetadata("x-request-id", names_.id);
  if (!names_.traceparent.empty()) context.AddInitialMetadata("traceparent", names_.traceparent);
  if (const auto problem = key_refusal(rules->keys, need, sent.authorization, sent.x_api_key)) {
    const StatusCode code = problem->is_known ? StatusCode::PERMISSION_DENIED : StatusCode::UNAUTHENTICATED;
    if (problem->is_known && !caller_.key.empty()) {
      const bool is_unload = method_.path.ends_with("Unload");
      state_->options.audit->write_refused({.action = is_unload ? "unload" : "load",
                                            .model = {},
                                            .target = {},
                                            .digest = {},
                                            .caller = caller_,
                                            .result = {},
                                            .reason = problem->message});
    }
    if (claim_end()) finish({code, problem->message});
    return;
  }
  if (method_.path == infer_method) {
    if (const auto refusal = begin_limited(limited_)) {
      if (claim_end()) finish_refused(*refusal, message_of(*refusal, caller()));
      return;
    }
  }
  // Whoever asks for the server's health is told of its end.
  if (!works_ && needs_key_) {
    if (claim_end()) finish({StatusCode::UNAVAILABLE, "the server is going down"});
    return;
  }
  begin();
}

void Call::start_read(::grpc::ByteBuffer& message) {
  ++awaited_;
  hand_over(read_);
  wire_->stream.Read(&message, &read_);
}

void Call::start_only_read(::grpc::ByteBuffer& message) {
  is_awaiting_request_ = true;
  // It tells how long it is only when it is there.
  state_->transfers.add(*this, max_message_bytes(), TransferWatch::Holds::nothing);
  start_read(message);
}

bool Call::take(const ::grpc::ByteBuffer& message) {
  const std::size_t bytes = message.Length();
  const std::uint64_t most = max_message_bytes();
  if (bytes > most) {
    cut_off(StatusCode::RESOURCE_EXHAUSTED, fmt::format("the message has {} bytes; at most {} are taken", bytes, most));
    return false;
  }
  ++method_.counts->received;
  method_.counts->received_bytes += bytes;
  return true;
}

void Call::take_apart(::grpc::ByteBuffer& message, std::function<void()> read,
                      std::function<void(const Error&)> failed) {
  // A compressed one may come to a thousand times its length.
  const std::uint64_t most = state_->options.read_here_bytes / (is_compressed(message) ? 64 : 1);
  if (message.Length() <= most) {
    read();
  } else {
    // It takes what gRPC has read already: it is not refused where too many wait.
    state_->readers.post({.cancellation = cancellation(),
                          .cost = message.Length(),
                          .unit =
                              [self = shared_from_this(), read] {
                                read();
                                return false;
                              },
                          .failed = [self = shared_from_this(), failed](const Error& error) { failed(error); },
                          .is_admitted = true});
  }
}

MemoryShare Call::outgoing_memory(const ::grpc::ByteBuffer& message) const {
  const std::size_t bytes = message.Length();
  return bytes > small_answer_bytes ? memory_share(*state_, bytes) : MemoryShare();
}

void Call::prepare(const ::grpc::ByteBuffer& message, MemoryShare memory, Clock::time_point latest) {
  outgoing_ = message;
  outgoing_memory_ = std::move(memory);
  outgoing_bytes_ = message.Length();
  state_->transfers.add(*this, outgoing_bytes_, TransferWatch::Holds::memory, latest);
}

void Call::start_write(const ::grpc::ByteBuffer& message, MemoryShare memory) {
  prepare(message, std::move(memory));
  ++awaited_;
  hand_over(written_);
  wire_->stream.Write(outgoing_, &written_);
}

void Call::count_sent() noexcept {
  ++method_.counts->sent;
  method_.counts->sent_bytes += outgoing_bytes_;
  sent_bytes_ += outgoing_bytes_;
}

bool Call::is_past_deadline() const {
  // What the client counts down may be over a moment earlier than here.
  return deadline_ && Clock::now() + std::chrono::milliseconds(5) >= *deadline_;
}

Status Call::left_status() const {
  if (is_past_deadline()) return {StatusCode::DEADLINE_EXCEEDED, "the deadline has passed"};
  return {StatusCode::CANCELLED, "the client has left"};
}

void Call::keep_failure(StatusCode code, const std::string& reason) const {
  FailedRequests* failures = state_->options.failures.get();
  const bool is_kept = code != StatusCode::OK && code != StatusCode::UNAUTHENTICATED && code != StatusCode::CANCELLED;
  if (failures == nullptr || !needs_key_ || !is_kept) return;
  failures->add({.time = std::chrono::system_clock::now(),
                 .method = "gRPC",
                 .path = std::string(method_.path),
                 .status = std::string(grpc_code_names.at(static_cast<std::size_t>(code))),
                 .reason = reason,
                 .id = names_.id,
                 .milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - arrived_).count()});
}

void Call::finish(const Status& status) {
  code_ = status.error_code();
  failure_ = status.error_message();
  keep_failure(code_, status.error_message());
  // Nothing was begun that a retry would repeat: the client may come again after a second.
  if (code_ == StatusCode::UNAVAILABLE) wire_->context.AddTrailingMetadata("grpc-retry-pushback-ms", "1000");
  hand_over(finished_);
  wire_->stream.Finish(status, &finished_);
}

void Call::finish_refused(const LimitRefusal& refusal, const std::string& message) {
  wire_->context.AddTrailingMetadata("retry-after", std::to_string(retry_after(refusal).count()));
  wire_->context.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(refusal.wait.count()));
  finish({StatusCode::RESOURCE_EXHAUSTED, message});
}

void Call::finish_with(const ::grpc::ByteBuffer& answer, const std::optional<Clock::time_point>& deadline) {
  MemoryShare memory;
  try {
    memory = outgoing_memory(answer);
  } catch (const Error& error) {
    finish(status_of(error));
    return;
  }
  is_last_out_ = true;
  prepare(answer, std::move(memory),
          deadline ? std::max(*deadline, Clock::now()) + http::write_grace : Clock::time_point::max());
  hand_over(finished_);
  wire_->stream.WriteAndFinish(outgoing_, {}, Status::OK, &finished_);
}

void Call::give_up(GivenUp reason) {
  if (reason == GivenUp::for_memory) {
    cut_off(StatusCode::RESOURCE_EXHAUSTED,
            "the client took the answer too slowly while requests and answers held all the memory that they may");
    return;
  }
  cut_off(StatusCode::DEADLINE_EXCEEDED,
          is_awaiting_request_ ? "the request did not arrive in time" : "the client did not read the answer in time");
}

void Call::cut_off(StatusCode code, const std::string& reason) {
  cut_off_with_ = code;
  keep_failure(code, reason);
  // Not TryCancel, which could not say why. What has not been written is dropped, and the status goes out: a header is
  // not held up by the client's window.
  grpc_call_cancel_with_status(wire_->context.c_call(), static_cast<grpc_status_code>(code), reason.c_str(), nullptr);
}

StatusCode Call::final_code() const {
  if (const StatusCode code = cut_off_with_; code != StatusCode::OK) return code;
  if (!wire_->context.IsCancelled()) return code_;
  // Whatever else was given came too late to reach the client.
  const bool says_so = code_ == StatusCode::CANCELLED || code_ == StatusCode::DEADLINE_EXCEEDED;
  return says_so ? code_ : left_status().error_code();
}

void Call::let_go() {
  if (--awaited_ == 0) end();
}

void Call::end() {
  state_->transfers.remove(*this);
  const StatusCode code = final_code();
  if (is_last_out_ && code == StatusCode::OK) count_sent();
  ++method_.counts->ended.at(static_cast<std::size_t>(code));
  if (spans_) spans_->end(end_of({code, failure_}));
  if (state_->options.log_requests) {
    const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - arrived_).count();
    std::vector<log::Field> fields{{"method", "gRPC"},
                                   {"path", std::string(method_.path)},
                                   {"status", std::string(grpc_code_names.at(static_cast<std::size_t>(code)))},
                                   {"bytes", std::to_string(sent_bytes_)},
                                   {"ms", fmt::format("{:.3f}", milliseconds)},
                                   {"peer", peer_},
                                   {"request", names_.id}};
    if (spans_) {
      fields.push_back({"trace", spans_->context().traceparent()});
    } else if (!names_.traceparent.empty()) {
      fields.push_back({"trace", names_.traceparent});
    }
    log::write(log::Level::info, "answered", fields);
  }
  outgoing_.Clear();
  outgoing_memory_.release();
  if (limited_) limited_->end();
  if (works_) state_->end_work();
  on_done();
  // Whoever still holds the call has nothing more to say to gRPC, which waits for this when the server goes down.
  const std::shared_ptr<Call> last = std::move(self_);
  wire_.reset();
}

/// One message in, one out.
class Answer::Writer : public Call {
 public:
  Writer(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire, const CalledMethod& method, UnaryHandler handler)
      : Call(std::move(state), std::move(wire), method), handler_(handler) {}

  void respond(const ::grpc::ByteBuffer& message, const std::optional<Clock::time_point>& deadline) {
    if (claim_end()) finish_with(message, deadline);
  }

  void fail(const Error& error) {
    if (claim_end()) finish(status_of(error));
  }

  void refuse(const LimitRefusal& refusal, const std::string& message) {
    if (claim_end()) finish_refused(refusal, message);
  }

  void call_when_gone(std::function<void()> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!gone_) {
        on_gone_ = std::move(callback);
        return;
      }
    }
    callback();
  }

 private:
  void begin() override { start_only_read(request_); }

  void on_read(bool ok) override {
    if (!ok) {
      fail(Error(ErrorCode::invalid_input, "the call has no message"));
      return;
    }
    if (!take(request_)) {
      request_.Clear();
      return;
    }
    take_apart(
        request_, [this] { handle(); },
        [this](const Error& error) {
          request_.Clear();
          fail(error);
        });
  }

  void handle() {
    const auto answer = std::make_shared<Answer>(std::static_pointer_cast<Writer>(shared_from_this()));
    try {
      handler_(answer, request_);
    } catch (const Error& error) {
      answer->fail(error);
    } catch (const std::exception& error) {
      answer->fail(Error(ErrorCode::internal, error.what()));
    }
    request_.Clear();
  }

  void on_gone() override {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      callback = std::move(on_gone_);
    }
    if (callback) callback();
    if (claim_end()) finish(left_status());
  }

  UnaryHandler handler_;
  ::grpc::ByteBuffer request_;
  std::mutex mutex_;
  bool gone_ = false;
  std::function<void()> on_gone_;
};

Answer::~Answer() {
  if (!writer_->has_ended()) writer_->fail(Error(ErrorCode::interrupted, "the server is going down"));
}

void Answer::respond(const ::grpc::ByteBuffer& message, const std::optional<Clock::time_point>& deadline) const {
  writer_->respond(message, deadline);
}

void Answer::fail(const Error& error) const {
  writer_->fail(error);
}

void Answer::refuse(const LimitRefusal& refusal, const std::string& message) const {
  writer_->refuse(refusal, message);
}

void Answer::on_gone(std::function<void()> callback) const {
  writer_->call_when_gone(std::move(callback));
}

const Call& Answer::call() const {
  return *writer_;
}

std::shared_ptr<Call> make_unary_call(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                      const CalledMethod& method, UnaryHandler handler) {
  return std::make_shared<Answer::Writer>(std::move(state), std::move(wire), method, handler);
}

namespace {

class UnknownCall : public Call {
 public:
  using Call::Call;

 private:
  void begin() override {
    const bool is_known_elsewhere = method().find("SharedMemory") != std::string::npos ||
                                    method().ends_with("/TraceSetting") || method().ends_with("/LogSettings");
    const std::string message = is_known_elsewhere
                                    ? fmt::format("{}: shared memory and settings of tracing and logs are not served",
                                                  utf8_prefix(method(), 120))
                                    : fmt::format("there is no method {}", utf8_prefix(method(), 120));
    if (claim_end()) finish({StatusCode::UNIMPLEMENTED, message});
  }
};

}  // namespace

std::shared_ptr<Call> make_unknown_call(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                        const CalledMethod& method) {
  return std::make_shared<UnknownCall>(std::move(state), std::move(wire), method);
}

}  // namespace gpux::server
