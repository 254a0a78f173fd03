#include "server/grpc/infer_run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/models/run_spans.h"
#include "server/telemetry/request_spans.h"

namespace gpux::server {

using Clock = std::chrono::steady_clock;

InferRun::InferRun(std::shared_ptr<const inference::ModelInferRequest> request, RequestWork work,
                   Clock::time_point arrived, std::shared_ptr<const SharedRegions> regions, Done done)
    : request_(std::move(request)),
      work_(std::move(work)),
      arrived_(arrived),
      regions_(std::move(regions)),
      done_(std::move(done)) {}

void InferRun::start(ModelRepository& repository) {
  const auto self = shared_from_this();
  try {
    const std::string &name = request_->model_name(), &version = request_->model_version();
    if (const std::shared_ptr<ServedModel> model = repository.use_ready(name, version)) {
      submit_to(model);
      return;
    }
    repository.use(
        name, version,
        [self, asked = Clock::now()](const std::shared_ptr<ServedModel>& model) {
          add_phase(self->work_.spans, "load", asked);
          self->submit_to(model);
        },
        [self](const Error& error) { self->fail(error); }, work_.deadline.time());
  } catch (const Error& error) {
    fail(error);
  }
}

void InferRun::submit_to(const std::shared_ptr<ServedModel>& model) {
  try {
    std::optional<LimitRefusal> refusal;
    work_.of_model = model->begin_limited(refusal);
    if (refusal) {
      const std::string message = message_of(*refusal, fmt::format("the model '{}'", model->name()));
      end(Failure{Error(ErrorCode::resource_exhausted, message), refusal}, {});
      return;
    }
    auto call = std::make_shared<InferCall>();
    std::shared_ptr<MemoryShare> share;
    try {
      const InferReading reading{.regions = regions_.get(), .hold = [&](std::uint64_t bytes) {
                                   if (share == nullptr) share = work_.hold(0, "reading shared memory");
                                   grow_share(*share, work_.memory, bytes, "reading shared memory");
                                 }};
      *call = read_infer_message(request_, model->signature(), work_.cancellation(), reading);
    } catch (const Error& error) {
      model->statistics().count(error, arrived_);
      throw;
    }
    if (const auto timeout = call->timeout) work_.deadline.bring_forward(arrived_ + *timeout);
    if (const auto timeout = model->options().timeout) work_.deadline.bring_forward(arrived_ + *timeout);
    call->run.arrived = arrived_;
    if (work_.spans) {
      work_.spans->set("gpux.model", model->name());
      work_.spans->set("gpux.verdict", model->ran_on().header);
    }
    const Pending pending = submit_infer(
        model, std::move(call->run), work_,
        [self = shared_from_this(), model, call, share](runtime::InferAnswer&& answer) {
          if (answer.error) {
            self->fail(*answer.error);
            return;
          }
          try {
            self->end(std::nullopt, write_infer_message({.model_name = model->name(),
                                                         .model_version = model->version(),
                                                         .call = *call,
                                                         .outputs = answer.outputs,
                                                         .declared = model->declared_outputs(),
                                                         .verdict = model->ran_on().header}));
          } catch (...) {
            self->fail(current_error());
          }
        },
        runtime::Here::allowed);
    bool is_late = false;
    {
      const std::lock_guard lock(mutex_);
      is_late = cancelled_;
      if (done_) pending_ = pending;
    }
    if (is_late) pending.cancel();
  } catch (...) {
    fail(current_error());
  }
}

void InferRun::cancel() {
  // What is past its deadline is ended, and counted, as such by the scheduler.
  const auto deadline = work_.deadline.time();
  if (deadline && Clock::now() + std::chrono::milliseconds(5) >= *deadline) return;
  work_.stop.request_stop();
  Pending pending;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    pending = pending_;
  }
  if (pending) pending.cancel();
}

void InferRun::end(const std::optional<Failure>& failure, const InferMessage& message) {
  Done done;
  Pending pending;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(done_, nullptr);
    pending = std::exchange(pending_, {});
  }
  if (done) done(failure, message);
}

}  // namespace gpux::server
