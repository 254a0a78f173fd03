#include "server/grpc/infer_stream.h"

#include <deque>
#include <map>
#include <utility>

#include "server/grpc/infer_run.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;
using ::grpc::Status;
using ::grpc::StatusCode;

class InferStream : public Call, public LastingCall {
 public:
  using Call::Call;

  void readiness_changed() override {}

  void end() override {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    go_on();
  }

 private:
  std::shared_ptr<InferStream> self() { return std::static_pointer_cast<InferStream>(shared_from_this()); }

  void begin() override {
    {
      const std::lock_guard lock(state()->mutex);
      state()->lasting.insert(self());
    }
    const std::lock_guard lock(mutex_);
    if (state()->going_down) ending_ = true;
    go_on();
  }

  void on_read(bool ok) override {
    if (!ok || !take(request_)) {
      const std::lock_guard lock(mutex_);
      request_.Clear();
      reading_ = false;
      no_more_ = true;
      go_on();
      return;
    }
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      number = next_number_++;
      ++in_flight_;
    }
    take_apart(
        request_,
        [this, number] {
          answer_request(number);
          read_next();
        },
        [this, number](const Error& error) {
          answer(number, stream_failure(error.message(), "", ""));
          read_next();
        });
  }

  void read_next() {
    const std::lock_guard lock(mutex_);
    request_.Clear();
    reading_ = false;
    go_on();
  }

  void answer_request(std::uint64_t number) {
    std::shared_ptr<inference::ModelInferRequest> request;
    try {
      request = read_message<inference::ModelInferRequest>(*this, request_);
    } catch (const Error& error) {
      answer(number, stream_failure(error.message(), "", ""));
      return;
    } catch (const std::exception& error) {
      answer(number, stream_failure(error.what(), "", ""));
      return;
    }
    // A stream may last longer than its key is accepted.
    if (const auto problem = key_problem(KeyNeed::any)) {
      answer(number, stream_failure(problem->message, request->model_name(), request->id()));
      return;
    }
    std::shared_ptr<LimitedRequest> limited;
    if (const auto refusal = begin_limited(limited)) {
      answer(number, stream_failure(message_of(*refusal, caller()), request->model_name(), request->id()));
      return;
    }
    // The deadline is that of the stream and not of one message; a message has its parameter. One that fails stops its
    // own work alone.
    RequestWork own = work();
    own.stop = {};
    own.limited = std::move(limited);
    // Each message is a span of its own: a stream may last for days.
    own.spans = begin_spans(Clock::now());
    const std::shared_ptr<RequestSpans> spans = own.spans;
    auto run = std::make_shared<InferRun>(
        request, std::move(own), Clock::now(), state()->options.shared_regions,
        [self = self(), number, name = request->model_name(), id = request->id(), spans](
            const std::optional<InferRun::Failure>& failure, const InferMessage& message) {
          if (spans) spans->end(end_of(failure ? status_of(failure->error) : Status::OK));
          self->answer(number,
                       failure ? stream_failure(failure->error.message(), self->state()->repository.name_of(name), id)
                               : stream_answer(message));
        });
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) return;
      runs_.emplace(number, run);
    }
    run->start(state()->repository);
  }

  struct Waiting {
    ::grpc::ByteBuffer message;
    MemoryShare memory;
  };

  [[nodiscard]] Waiting waiting(const ::grpc::ByteBuffer& message) const {
    try {
      return {message, outgoing_memory(message)};
    } catch (const Error& error) {
      return {stream_failure(error.message(), "", ""), {}};
    }
  }

  void answer(std::uint64_t number, const ::grpc::ByteBuffer& message) {
    Waiting next = waiting(message);
    std::shared_ptr<InferRun> over;  // let go without the lock
    const std::lock_guard lock(mutex_);
    if (const auto found = runs_.find(number); found != runs_.end()) {
      over = std::move(found->second);
      runs_.erase(found);
    }
    if (cancelled_) return;
    answers_.push_back(std::move(next));
    go_on();
  }

  void on_written(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    --in_flight_;
    if (!ok) cancelled_ = true;
    go_on();
  }

  void on_gone() override {
    std::map<std::uint64_t, std::shared_ptr<InferRun>> left;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      answers_.clear();
      left.swap(runs_);
      go_on();
    }
    for (const auto& [number, run] : left) run->cancel();
  }

  void on_done() override {
    const std::lock_guard lock(state()->mutex);
    state()->lasting.erase(self());
  }

  // Starts what can be started. Under the lock: gRPC calls back through the queue, never from here.
  void go_on() {
    if (ended_) return;
    if (cancelled_) {
      if (!writing_) conclude(left_status());
      return;
    }
    if (!writing_ && !answers_.empty()) {
      writing_ = true;
      Waiting next = std::move(answers_.front());
      answers_.pop_front();
      start_write(next.message, std::move(next.memory));
    }
    if (in_flight_ == 0 && (no_more_ || ending_)) {
      conclude(no_more_ ? Status::OK : Status(StatusCode::UNAVAILABLE, "the server is going down"));
      return;
    }
    if (!reading_ && !no_more_ && !ending_ && in_flight_ < state()->options.max_stream_requests) {
      reading_ = true;
      start_read(request_);
    }
  }

  void conclude(const Status& status) {
    ended_ = true;
    if (claim_end()) finish(status);
  }

  std::mutex mutex_;
  ::grpc::ByteBuffer request_;
  std::map<std::uint64_t, std::shared_ptr<InferRun>> runs_;
  std::deque<Waiting> answers_;  // that wait for the one being written
  std::uint64_t next_number_ = 0;
  std::size_t in_flight_ = 0;  // read and not yet answered
  bool reading_ = false, writing_ = false, no_more_ = false, ending_ = false, cancelled_ = false, ended_ = false;
};

}  // namespace

std::shared_ptr<Call> make_infer_stream(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                        const CalledMethod& method) {
  return std::make_shared<InferStream>(std::move(state), std::move(wire), method);
}

}  // namespace gpux::server
