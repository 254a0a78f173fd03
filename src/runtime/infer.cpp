#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/start_thread.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "runtime/check_inputs.h"
#include "runtime/runtime_state.h"
#include "runtime/session/stop_handle.h"
#include "tensor/deep_copy.h"

/// Runs of a model, within the time that their callers have.
namespace gpux {
namespace {

// Borrowed memory without an owner must not be read after the caller got the error of its deadline.
void own_memory(Value& value) {
  if (auto* tensor = std::get_if<Tensor>(&value)) {
    if (!tensor->has_owner()) *tensor = deep_copy(*tensor);
  } else if (auto* sequence = std::get_if<Sequence>(&value)) {
    for (Value& element : sequence->values) own_memory(element);
  } else if (auto* map = std::get_if<Map>(&value)) {
    if (!map->keys.has_owner()) map->keys = deep_copy(map->keys);
    if (!map->values.has_owner()) map->values = deep_copy(map->values);
  }
}

NamedValues owned(NamedValues inputs) {
  for (auto& [name, value] : inputs) own_memory(value);
  return inputs;
}

/// What has become of a run whose caller may have left.
template <typename Results>
struct Outcome {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Results> results;
  std::optional<Error> error;
  bool abandoned = false;
  runtime::StopHandle handle;

  explicit Outcome(runtime::RunPlaces places) : handle(places) {}
};

template <typename State, typename Results, typename Run>
void finish_run(State& state, Outcome<Results>& outcome, const Run& run) {
  std::optional<Results> results;
  std::optional<Error> error;
  try {
    results = run(state, &outcome.handle);
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::exception& failure) {
    error = Error(ErrorCode::internal, failure.what());
  }
  {
    const std::lock_guard lock(outcome.mutex);
    outcome.results = std::move(results);
    outcome.error = std::move(error);
    if (outcome.abandoned) {
      const std::lock_guard state_lock(state.mutex);
      --state.abandoned_runs;
      state.returned.notify_all();
    }
  }
  outcome.done.notify_all();
}

}  // namespace

// Calls `run` with a handle, or none, within the time that the options give it. A run that is not over by then goes on
// with what it holds: copies of `run` and of the state.
template <typename Run>
auto Runtime::State::within_time(const std::shared_ptr<State>& shared, const InferOptions& options, Run run) {
  using Results = decltype(run(*shared, nullptr));
  State& state = *shared;
  if (!options.timeout) {
    state.wait_until_free(std::nullopt);
    if (!options.stop.stop_possible()) return run(state, nullptr);
    runtime::StopHandle handle(state.session->places());
    const std::stop_callback stopping(options.stop, [&handle] { handle.stop(); });
    return run(state, &handle);
  }

  const auto deadline = std::chrono::steady_clock::now() + *options.timeout;
  state.wait_until_free(deadline);
  auto outcome = std::make_shared<Outcome<Results>>(state.session->places());
  std::thread runner =
      start_thread([shared, outcome, held = std::move(run).held()] { finish_run(*shared, *outcome, held); });

  const std::stop_callback stopping(options.stop, [&outcome] { outcome->handle.stop(); });
  std::unique_lock lock(outcome->mutex);
  const auto finished = [&] { return outcome->results.has_value() || outcome->error.has_value(); };
  if (!outcome->done.wait_until(lock, deadline, finished)) {
    outcome->abandoned = true;
    runner.detach();
    {
      const std::lock_guard state_lock(state.mutex);
      ++state.abandoned_runs;
    }
    outcome->handle.stop();
    throw Error(
        ErrorCode::deadline_exceeded,
        fmt::format("no answer within {} s; the run on {} was signalled to stop and ends after its current node",
                    std::chrono::duration<double>(*options.timeout).count(), join(state.loaded.verdict.active)));
  }
  lock.unlock();
  runner.join();
  std::optional<Results> results = std::move(outcome->results);
  if (!results) throw Error(outcome->error.value_or(Error(ErrorCode::internal, "a run ended without results")));
  return std::move(*results);
}

namespace {

/// A run whose results are on the host. held(): the same with inputs of its own, for a run that its caller may leave.
template <typename State>
struct HostRun {
  const NamedValues* inputs;
  const std::vector<std::size_t>* outputs;

  NamedValues operator()(State& state, runtime::StopHandle* handle) const {
    return state.run(*inputs, *outputs, handle);
  }

  [[nodiscard]] auto held() const {
    return [inputs = owned(*inputs), outputs = *outputs](State& state, runtime::StopHandle* handle) {
      return state.run(inputs, outputs, handle);
    };
  }
};

/// A run whose results stay where they are made.
template <typename State>
struct DeviceRun {
  const NamedValues* inputs;
  const NamedDeviceTensors* device_inputs;
  const std::vector<std::size_t>* outputs;

  NamedDeviceTensors operator()(State& state, runtime::StopHandle* handle) const {
    return state.run_on_device(*inputs, *device_inputs, *outputs, handle);
  }

  [[nodiscard]] auto held() const {
    return [inputs = owned(*inputs), device_inputs = *device_inputs, outputs = *outputs](State& state,
                                                                                         runtime::StopHandle* handle) {
      return state.run_on_device(inputs, device_inputs, outputs, handle);
    };
  }
};

}  // namespace

NamedValues Runtime::infer(const NamedValues& inputs, const InferOptions& options) const {
  runtime::check_inputs(state_->info.signature, inputs);
  const std::vector<std::size_t> chosen =
      options.outputs.empty() ? std::vector<std::size_t>() : state_->output_indices(options.outputs);
  const std::vector<std::size_t>& outputs = options.outputs.empty() ? state_->all_outputs : chosen;
  return State::within_time(state_, options, HostRun<State>{&inputs, &outputs});
}

NamedDeviceTensors Runtime::infer_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                            const InferOptions& options) const {
  runtime::check_inputs(state_->info.signature, inputs, device_inputs);
  const std::vector<std::size_t> outputs =
      options.outputs.empty() ? state_->all_outputs : state_->output_indices(options.outputs);
  return State::within_time(state_, options, DeviceRun<State>{&inputs, &device_inputs, &outputs});
}

DeviceTensor Runtime::upload(const Tensor& tensor, std::string_view input) const {
  const auto& inputs = state_->info.signature.inputs;
  if (std::ranges::find(inputs, input, &SignatureEntry::name) == inputs.end()) {
    std::vector<std::string> names;
    for (const SignatureEntry& known : inputs) names.push_back(known.name);
    throw Error(ErrorCode::invalid_input, fmt::format("there is no input '{}'; inputs: {}", input, join(names)));
  }
  return state_->session->upload(tensor, input);
}

NamedValues Runtime::infer(const Tensor& input, const InferOptions& options) const {
  const auto& inputs = info().signature.inputs;
  if (inputs.empty()) throw Error(ErrorCode::invalid_input, "the model has no input");
  return infer(NamedValues{{inputs.front().name, input}}, options);
}

}  // namespace gpux
