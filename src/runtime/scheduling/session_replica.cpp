#include "runtime/scheduling/session_replica.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/processors.h"
#include "gpux/error.h"
#include "runtime/loading/load_plan.h"
#include "runtime/runtime_state.h"
#include "runtime/session/stop_handle.h"

namespace gpux::runtime {

SessionReplica::SessionReplica(const Runtime& runtime, std::size_t device, std::vector<unsigned> processors,
                               bool waits_for_worker, std::shared_ptr<ort::ComputeTurn> turn)
    : runtime_(runtime),
      device_(device),
      processors_(std::move(processors)),
      waits_for_worker_(waits_for_worker),
      turn_(std::move(turn)) {
  // The runs of a worker process take the turns there.
  if (turn_ != nullptr) runtime.state_->session->limit_computing(turn_->runs());
}

SessionReplica::~SessionReplica() = default;

template <typename Run>
auto SessionReplica::stoppable(const Run& run) {
  // One for each run: a stop that comes too late must not end the next.
  StopHandle handle(runtime_.state_->session->places());
  if (turn_ != nullptr && handle.here() != nullptr) handle.here()->take_turns(*turn_);
  {
    const std::lock_guard lock(mutex_);
    running_ = &handle;
  }
  const auto forget = [this](StopHandle*) {
    const std::lock_guard lock(mutex_);
    running_ = nullptr;
  };
  const std::unique_ptr<StopHandle, decltype(forget)> running(&handle, forget);
  return run(&handle);
}

NamedValues SessionReplica::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs) {
  return run(inputs, outputs, waits_for_worker_);
}

NamedValues SessionReplica::run_trial(const NamedValues& inputs, const std::vector<std::size_t>& outputs) {
  return run(inputs, outputs, true);
}

NamedValues SessionReplica::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                bool waits_for_worker) {
  has_lost_its_worker_ = false;
  worker_run_ = {};
  const BoundThread bound(processors_);
  const WorkerAbsence absence = waits_for_worker ? WorkerAbsence::wait : WorkerAbsence::fail;
  try {
    return stoppable([&](StopHandle* handle) {
      NamedValues results = runtime_.state_->run(inputs, outputs, handle, absence);
      worker_run_ = handle->worker_run();
      return results;
    });
  } catch (const isolation::WorkerEnded&) {
    has_lost_its_worker_ = true;
    throw;
  }
}

NamedValues SessionReplica::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle& handle,
                                std::span<const std::optional<Tensor>> places) const {
  const Runtime::State& state = *runtime_.state_;
  if (places.empty()) return state.run(inputs, outputs, &handle);
  return state.session->run_into(inputs, outputs, handle, places);
}

bool SessionReplica::can_place(std::size_t output) const noexcept {
  return runtime_.state_->session->can_place(output);
}

NamedDeviceTensors SessionReplica::run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                                 const std::vector<std::size_t>& outputs,
                                                 const NamedDeviceTensors& in_place) {
  return stoppable([&](StopHandle* handle) {
    return runtime_.state_->run_on_device(inputs, device_inputs, outputs, handle, in_place);
  });
}

NamedDeviceTensors SessionReplica::run_without_reading(const NamedValues& inputs,
                                                       const NamedDeviceTensors& device_inputs) {
  const Runtime::State& state = *runtime_.state_;
  return stoppable([&](StopHandle* handle) {
    return state.run_on_device(inputs, device_inputs, state.all_outputs, handle, {}, ort::Kept::all);
  });
}

bool SessionReplica::makes_on_device(std::string_view output) const {
  return runtime_.state_->session->makes_on_device(output_indices({std::string(output)}).front());
}

LoadOptions SessionReplica::options_for_same_device() const {
  const Runtime::State& state = *runtime_.state_;
  LoadOptions same;
  // That the CPU has more nodes does not make it the device.
  const std::vector<std::string>& active = state.loaded.verdict.active;
  const auto device = std::ranges::find_if(active, [](const std::string& id) { return id != "cpu"; });
  same.provider = device == active.end() ? active.front() : *device;
  same.provider_libraries = state.options.provider_libraries;
  if (const ProviderOptions* own = options_of(state.options, same.provider)) same.provider_options.push_back(*own);
  same.device = state.options.device;
  same.intra_threads = 1;
  return same;
}

bool SessionReplica::keeps_on_device(std::string_view output) const {
  return runtime_.state_->session->keeps_on_device(output_indices({std::string(output)}).front());
}

const std::vector<std::string>& SessionReplica::output_names() const noexcept {
  return runtime_.state_->session->output_names();
}

std::vector<std::size_t> SessionReplica::output_indices(const std::vector<std::string>& names) const {
  return runtime_.state_->output_indices(names);
}

const std::string& SessionReplica::computed_by() const noexcept {
  return runtime_.state_->loaded.computed_by;
}

const isolation::LoadedIdentity& SessionReplica::identity() const noexcept {
  return runtime_.state_->loaded.identity;
}

unsigned SessionReplica::threads() const {
  return runtime_.state_->options.intra_threads.value_or(usable_cores(Machine::this_one()));
}

const onnx::StoredCaches& SessionReplica::stored_caches() const noexcept {
  return runtime_.state_->loaded.stored_caches;
}

Value SessionReplica::run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::string_view output,
                                   bool all_logits) {
  const std::size_t index = runtime_.state_->output_indices({std::string(output)}).front();
  return stoppable([&](StopHandle* handle) {
    return runtime_.state_->session->run_in_place(inputs, in_place, index, all_logits, *handle);
  });
}

const isolation::RemoteSession& SessionReplica::remote() const {
  const isolation::RemoteSession* session = runtime_.state_->session->remote();
  if (session == nullptr) throw Error(ErrorCode::usage, "the model runs in this process");
  return *session;
}

std::uint64_t SessionReplica::wait_for_worker() {
  return stoppable([&](StopHandle* handle) { return remote().wait_for_worker(handle->in_worker()); });
}

NamedValues SessionReplica::call_worker(std::uint64_t worker, const NamedValues& inputs,
                                        const isolation::ExpectedValues& expected) {
  return stoppable([&](StopHandle* handle) { return remote().call(worker, inputs, expected, handle->in_worker()); });
}

void SessionReplica::stop() {
  const std::lock_guard lock(mutex_);
  if (running_ != nullptr) running_->stop();
}

}  // namespace gpux::runtime
