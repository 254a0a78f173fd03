#include "server/grpc/call.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "server/api_keys.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;
using ::grpc::Status;
using ::grpc::StatusCode;

std::string_view view(const ::grpc::string_ref& text) {
  return {text.data(), text.size()};
}

std::optional<std::string_view> metadata_of(const ::grpc::CallbackServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional(view(found->second));
}

std::optional<Clock::time_point> deadline_of(const ::grpc::CallbackServerContext& context) {
  using System = std::chrono::system_clock;
  const System::time_point deadline = context.deadline();
  // Far away counts as none: the clocks' difference would overflow.
  const System::time_point now = System::now();
  if (deadline > now + std::chrono::hours(24 * 365)) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline - now);
}

const char* name_of(StatusCode code) {
  switch (code) {
    case StatusCode::OK:
      return "OK";
    case StatusCode::CANCELLED:
      return "CANCELLED";
    case StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case StatusCode::NOT_FOUND:
      return "NOT_FOUND";
    case StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    case StatusCode::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    default:
      return "INTERNAL";
  }
}

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

HeldBytes::HeldBytes(std::shared_ptr<CallState> state, std::uint64_t bytes) : state_(std::move(state)), bytes_(bytes) {
  const std::uint64_t before = state_->held_bytes.fetch_add(bytes_);
  if (before + bytes_ <= state_->options.max_in_flight_bytes) return;
  state_->held_bytes -= bytes_;
  throw Error(ErrorCode::resource_exhausted,
              fmt::format("requests of {} bytes are in flight, and there is room for {}: try later", before,
                          state_->options.max_in_flight_bytes));
}

Call::Call(std::shared_ptr<CallState> state, ::grpc::CallbackServerContext& context, std::string_view method)
    : state_(std::move(state)), context_(context), method_(method), deadline_(deadline_of(context)) {
  names_ = name_request(metadata_of(context_, "x-request-id").value_or(""), metadata_of(context_, "traceparent"));
  if (state_->options.log_requests) peer_ = context_.peer();
}

void Call::admit(bool needs_key) {
  self_ = shared_from_this();
  context_.AddInitialMetadata("x-request-id", names_.id);
  if (!names_.traceparent.empty()) context_.AddInitialMetadata("traceparent", names_.traceparent);
  if (needs_key && !holds_key(state_->options.api_keys, metadata_of(context_, "authorization").value_or(""),
                              metadata_of(context_, "x-api-key").value_or(""))) {
    if (claim_end()) finish({StatusCode::UNAUTHENTICATED, "an API key is needed"});
    return;
  }
  begin();
}

void Call::finish(const Status& status) {
  code_ = status.error_code();
  // Nothing was begun that a retry would repeat: the client may come again after a second.
  if (code_ == StatusCode::UNAVAILABLE) context_.AddTrailingMetadata("grpc-retry-pushback-ms", "1000");
  Finish(status);
}

void Call::finish_with(const ::grpc::ByteBuffer& answer) {
  last_ = answer;
  StartWriteAndFinish(&last_, {}, Status::OK);
}

void Call::OnDone() {
  if (state_->options.log_requests) {
    const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - arrived_).count();
    log::info("grpc {} {} {} bytes {:.3f} ms peer={} request={}{}{}", method_, name_of(code_), last_.Length(),
              milliseconds, peer_, names_.id, names_.traceparent.empty() ? "" : " trace=", names_.traceparent);
  }
  self_.reset();
}

/// One message in, one out.
class Answer::Writer : public Call {
 public:
  Writer(std::shared_ptr<CallState> state, ::grpc::CallbackServerContext& context, std::string_view method,
         UnaryHandler handler)
      : Call(std::move(state), context, method), handler_(handler) {}

  void respond(const ::grpc::ByteBuffer& message) {
    if (claim_end()) finish_with(message);
  }

  void fail(const Error& error) {
    if (claim_end()) finish(status_of(error));
  }

  void on_gone(std::function<void()> callback) {
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
  void begin() override { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      fail(Error(ErrorCode::invalid_input, "the call has no message"));
      return;
    }
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

  void OnCancel() override {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      callback = std::move(on_gone_);
    }
    if (callback) callback();
    if (claim_end()) finish({StatusCode::CANCELLED, "the client has left"});
  }

  UnaryHandler handler_;
  ::grpc::ByteBuffer request_;
  std::mutex mutex_;
  bool gone_ = false;
  std::function<void()> on_gone_;
};

Answer::~Answer() {
  writer_->fail(Error(ErrorCode::interrupted, "the server is going down"));
}

void Answer::respond(const ::grpc::ByteBuffer& message) const {
  writer_->respond(message);
}

void Answer::fail(const Error& error) const {
  writer_->fail(error);
}

void Answer::on_gone(std::function<void()> callback) const {
  writer_->on_gone(std::move(callback));
}

const Call& Answer::call() const {
  return *writer_;
}

std::shared_ptr<Call> make_unary_call(std::shared_ptr<CallState> state, ::grpc::CallbackServerContext& context,
                                      std::string_view method, UnaryHandler handler) {
  return std::make_shared<Answer::Writer>(std::move(state), context, method, handler);
}

namespace {

class UnknownCall : public Call {
 public:
  using Call::Call;

 private:
  void begin() override {
    const bool is_known_elsewhere = method().find("SharedMemory") != std::string::npos ||
                                    method().ends_with("/TraceSetting") || method().ends_with("/LogSettings");
    const std::string message =
        is_known_elsewhere
            ? fmt::format("{}: shared memory and settings of tracing and logs are not served", method().substr(0, 120))
            : fmt::format("there is no method {}", method().substr(0, 120));
    if (claim_end()) finish({StatusCode::UNIMPLEMENTED, message});
  }
};

}  // namespace

std::shared_ptr<Call> make_unknown_call(std::shared_ptr<CallState> state, ::grpc::CallbackServerContext& context,
                                        std::string_view method) {
  return std::make_shared<UnknownCall>(std::move(state), context, method);
}

}  // namespace gpux::server
