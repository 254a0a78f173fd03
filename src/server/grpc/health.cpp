#include "server/grpc/health.h"

#include <functional>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/alarm.h>

#include "base/utf8_prefix.h"
#include "health.pb.h"
#include "open_inference.pb.h"
#include "server/models/probe.h"

namespace gpux::server {
namespace {

using ::grpc::Status;
using ::grpc::StatusCode;
using Health = ::grpc::health::v1::HealthCheckResponse;

// `done` is called once, on this thread or one of the model's.
void find_out(const std::shared_ptr<CallState>& state, const std::string& service,
              std::function<void(Health::ServingStatus)> done) {
  const auto tell = [done](bool serves) { done(serves ? Health::SERVING : Health::NOT_SERVING); };
  // Clients that check by the service's name mean the server.
  const bool is_whole = service.empty() || service == "inference.GRPCInferenceService";
  std::shared_ptr<ServedModel> model;
  if (!is_whole) {
    try {
      model = state->repository.find_available(service, "");
    } catch (const Error& error) {
      done(error.code() == ErrorCode::not_found ? Health::SERVICE_UNKNOWN : Health::NOT_SERVING);
      return;
    }
  }
  if (!state->ready) {
    tell(false);
  } else if (is_whole) {
    probe_all(state->repository, state->options.probe, [tell](const std::string& failed) { tell(failed.empty()); });
  } else if (model) {
    probe(model, state->options.probe, tell);
  } else {
    tell(true);  // evicted: the next request loads it again
  }
}

class HealthWatch : public Call, public LastingCall {
 public:
  using Call::Call;

  void readiness_changed() override { look(); }

  void end() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    look();
  }

 private:
  std::shared_ptr<HealthWatch> self() { return std::static_pointer_cast<HealthWatch>(shared_from_this()); }

  void begin() override { start_only_read(request_); }

  void on_read(bool ok) override {
    try {
      if (!ok) throw Error(ErrorCode::invalid_input, "the call has no message");
      if (!take(request_)) return;
      service_ = read_message<::grpc::health::v1::HealthCheckRequest>(*this, request_)->service();
    } catch (const Error& error) {
      if (claim_end()) finish(status_of(error));
      return;
    }
    {
      const std::lock_guard lock(state()->mutex);
      state()->lasting.insert(self());
    }
    {
      const std::lock_guard lock(mutex_);
      if (state()->going_down) ending_ = true;
    }
    look();
  }

  void look() {
    {
      const std::lock_guard lock(mutex_);
      if (over_) return;
    }
    find_out(state(), service_, [self = self()](Health::ServingStatus status) { self->found(status); });
  }

  void found(Health::ServingStatus status) {
    const std::lock_guard lock(mutex_);
    found_ = status;
    go_on();
  }

  void on_written(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) over_ = true;
    go_on();
  }

  void on_gone() override {
    const std::lock_guard lock(mutex_);
    over_ = true;
    go_on();
  }

  void on_done() override {
    const std::lock_guard lock(state()->mutex);
    state()->lasting.erase(self());
  }

  // Under the lock: gRPC calls back through the queue, never from here.
  void go_on() {
    if (writing_ || ended_) return;
    if (!over_ && found_ && found_ != told_) {
      told_ = found_;
      Health health;
      health.set_status(*told_);
      writing_ = true;
      start_write(write_message(health), {});
      return;
    }
    if (over_ || (ending_ && found_)) {
      ended_ = true;
      over_ = true;
      alarm_.Cancel();
      if (claim_end()) {
        finish(ending_ ? Status(StatusCode::UNAVAILABLE, "the server is going down") : left_status());
      }
      return;
    }
    if (is_waiting_) return;
    is_waiting_ = true;
    // The alarm keeps this function after it has run, and is kept by this call.
    alarm_.Set(std::chrono::system_clock::now() + state()->options.watch_interval,
               [weak = std::weak_ptr(self())](bool ok) {
                 const auto watch = weak.lock();
                 if (!watch) return;
                 {
                   const std::lock_guard lock(watch->mutex_);
                   watch->is_waiting_ = false;
                 }
                 if (ok) watch->look();
               });
  }

  ::grpc::ByteBuffer request_;
  std::string service_;
  std::mutex mutex_;
  std::optional<Health::ServingStatus> found_, told_;
  bool writing_ = false, over_ = false, ending_ = false, ended_ = false, is_waiting_ = false;
  ::grpc::Alarm alarm_;
};

}  // namespace

void check_health(const std::shared_ptr<Answer>& answer, ::grpc::ByteBuffer& request) {
  const auto asked = read_message<::grpc::health::v1::HealthCheckRequest>(answer->call(), request);
  find_out(answer->call().state(), asked->service(), [answer, asked](Health::ServingStatus status) {
    if (status == Health::SERVICE_UNKNOWN) {
      answer->fail(
          Error(ErrorCode::not_found, fmt::format("there is no model '{}'", utf8_prefix(asked->service(), 80))));
      return;
    }
    Health health;
    health.set_status(status);
    answer->respond(write_message(health));
  });
}

std::shared_ptr<Call> make_health_watch(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                        const CalledMethod& method) {
  return std::make_shared<HealthWatch>(std::move(state), std::move(wire), method);
}

}  // namespace gpux::server
