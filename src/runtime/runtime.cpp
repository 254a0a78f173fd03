#include "gpux/runtime.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <fmt/format.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/processors.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "onnx/pooled_output.h"
#include "ort/session.h"
#include "provider/lost_device.h"
#include "provider/shape_profile.h"
#include "runtime/check_inputs.h"
#include "runtime/device_tensor_state.h"
#include "runtime/isolation/preflight.h"
#include "runtime/isolation/remote_session.h"
#include "runtime/loading/load.h"
#include "runtime/loading/memory_limit.h"
#include "runtime/scheduling/session_replica.h"
#include "runtime/sharing/kept_trials.h"
#include "runtime/sharing/run_sharing.h"
#include "runtime/steps.h"
#include "runtime/stop_handle.h"
#include "tensor/deep_copy.h"

namespace gpux {

std::string_view to_string(WorkerStatus::State state) noexcept {
  switch (state) {
    case WorkerStatus::State::ready:
      return "ready";
    case WorkerStatus::State::starting:
      return "starting";
    case WorkerStatus::State::waiting:
      return "waiting";
  }
  return "";
}

namespace {

// What the worker reports, as if it were loaded here.
runtime::Loaded loaded_in_worker(const std::filesystem::path& model, const runtime::isolation::LoadReport& report,
                                 const LoadOptions& options) {
  const auto& variants = options.precision_variants;
  const bool is_variant = report.weights != 0 && report.weights <= variants.size();
  runtime::Loaded loaded{.session = nullptr,
                         .verdict = report.verdict,
                         .weights_file = is_variant ? variants[report.weights - 1].file : model,
                         .profile_prefix = {},
                         .computed_by = report.computed_by,
                         .written_graph = {}};
  loaded.verdict.notes.push_back(options.isolation_reason.empty() ? "the model runs in a worker process"
                                                                  : options.isolation_reason);
  return loaded;
}

void require_worker_for_sandbox(const LoadOptions& options) {
  if (options.sandbox == Sandbox::off || options.isolation == Isolation::process) return;
  throw Error(ErrorCode::usage, "a sandbox requires isolation 'process', and it is 'thread'; accepted: sandbox off");
}

// A stranger's model has to be known as one.
void note_missing_sandbox(const LoadOptions& options, Verdict& verdict) {
  if (options.pulled_from.empty() || options.sandbox != Sandbox::off) return;
  verdict.notes.push_back(fmt::format("not sandboxed: the model comes from {}{}", options.pulled_from,
                                      options.isolation == Isolation::thread ? " and runs in this process" : ""));
}

}  // namespace

struct Runtime::State {
  using WorkerAbsence = runtime::isolation::WorkerAbsence;

  ModelInfo info;
  runtime::Loaded loaded;
  runtime::Steps steps;                                       // of the session of this process
  std::unique_ptr<runtime::isolation::RemoteSession> remote;  // null: the session is in this process
  std::filesystem::path profile;
  std::chrono::duration<double, std::milli> load_time{};
  std::vector<std::size_t> all_outputs;

  // Runs whose callers have left after a deadline and that have not returned yet.
  std::mutex mutex;
  std::condition_variable returned;
  std::atomic<int> abandoned_runs = 0;  // changed under the mutex

  LoadOptions options;
  provider::ActiveProfile profile_of_shapes;  // empty: any shape can be run
  std::mutex sharing_mutex;
  std::optional<RunSharing> sharing;  // once it is decided for good

  mutable std::mutex device_mutex;
  mutable std::string lost_device;                   // the error of the last run; under the mutex
  mutable std::atomic<bool> has_lost_device{false};  // whether it is not empty

  State(ModelInfo model_info, runtime::Loaded&& session, const LoadOptions& load_options)
      : info(std::move(model_info)), loaded(std::move(session)), steps(load_options), options(load_options) {
    note_missing_sandbox(options, loaded.verdict);
    note_outputs();
    note_compiled_shapes();
  }

  State(ModelInfo model_info, std::unique_ptr<runtime::isolation::RemoteSession> session,
        const LoadOptions& load_options)
      : info(std::move(model_info)),
        loaded(loaded_in_worker(info.path, session->report(), load_options)),
        steps(LoadOptions()),
        remote(std::move(session)),
        options(load_options) {
    note_missing_sandbox(options, loaded.verdict);
    note_outputs();
    note_compiled_shapes();
  }

  // A model before it makes other inputs of those that callers give.
  void note_compiled_shapes() {
    if (options.before.empty()) profile_of_shapes = provider::active_profile(loaded.verdict);
  }

  void note_outputs() {
    for (std::size_t i = 0; i < output_names().size(); ++i) all_outputs.push_back(i);
  }

  // Of the last step.
  [[nodiscard]] const std::vector<std::string>& output_names() const noexcept {
    return remote ? remote->report().output_names : steps.output_names(*loaded.session);
  }

  // A run that says so by its error has lost the device; one that succeeds has it.
  template <typename Run>
  auto noting_device(const Run& run) const {
    try {
      auto results = run();
      if (has_lost_device.load(std::memory_order_relaxed)) note_device({});
      return results;
    } catch (const Error& error) {
      if (provider::names_lost_device(error.message())) note_device(error.message());
      throw;
    }
  }

  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                runtime::StopHandle* handle = nullptr,
                                WorkerAbsence absence = WorkerAbsence::wait) const {
    runtime::check_compiled_shapes(profile_of_shapes, inputs);
    if (remote) {
      return remote->run(inputs, outputs, handle == nullptr ? std::stop_token() : handle->in_worker(), absence);
    }
    return noting_device(
        [&] { return steps.run(*loaded.session, inputs, outputs, handle == nullptr ? nullptr : handle->here()); });
  }

  void note_device(const std::string& error) const {
    const std::lock_guard lock(device_mutex);
    lost_device = error;
    has_lost_device = !error.empty();
  }

  // Steps before and behind the model, and a worker, pass values on through the host.
  [[nodiscard]] bool uses_device() const noexcept { return !remote && !steps && loaded.session->uses_device(); }

  [[nodiscard]] bool keeps_on_device() const noexcept { return uses_device() && loaded.session->keeps_on_device(); }

  [[nodiscard]] NamedDeviceTensors run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                                 const std::vector<std::size_t>& outputs,
                                                 runtime::StopHandle* handle = nullptr) const {
    using runtime::DeviceTensorState;
    runtime::check_compiled_shapes(profile_of_shapes, inputs, device_inputs);
    NamedDeviceTensors results;
    if (!uses_device()) {
      NamedValues all = inputs;
      for (const auto& [name, tensor] : device_inputs) all.emplace_back(name, tensor.read());
      for (auto& [name, value] : run(all, outputs, handle)) {
        const Tensor* tensor = value.tensor();
        if (tensor == nullptr) {
          throw Error(
              ErrorCode::invalid_input,
              fmt::format("output '{}' is no tensor, and a device holds only tensors; accepted: infer()", name));
        }
        results.emplace_back(name, DeviceTensor(*tensor));
      }
      return results;
    }
    NamedValues of_host = inputs;
    ort::NamedDeviceValues of_device;
    for (const auto& [name, tensor] : device_inputs) {
      if (const ort::DeviceValue* value = DeviceTensorState::device_value(tensor)) {
        of_device.emplace_back(name, *value);
      } else {
        of_host.emplace_back(name, tensor.read());
      }
    }
    ort::NamedDeviceValues values = noting_device([&] {
      return loaded.session->run_on_device(of_host, of_device, outputs, handle == nullptr ? nullptr : handle->here());
    });
    for (auto& [name, value] : values) {
      results.emplace_back(std::move(name), DeviceTensorState::wrap(std::move(value)));
    }
    return results;
  }

  template <typename Run>
  static auto within_time(const std::shared_ptr<State>& shared, const InferOptions& options, Run run);

  [[nodiscard]] std::vector<std::size_t> output_indices(const std::vector<std::string>& names) const {
    const std::vector<std::string>& known = output_names();
    std::vector<std::size_t> indices;
    for (const std::string& name : names) {
      const auto found = std::find(known.begin(), known.end(), name);
      if (found == known.end()) {
        throw Error(ErrorCode::invalid_input, fmt::format("there is no output '{}'; outputs: {}", name, join(known)));
      }
      indices.push_back(static_cast<std::size_t>(found - known.begin()));
    }
    return indices;
  }

  [[nodiscard]] std::string busy_sentence() const {
    return fmt::format("the model ({}) has not stopped yet after an earlier deadline", join(loaded.verdict.active));
  }

  void wait_until_free(std::optional<std::chrono::steady_clock::time_point> deadline) {
    if (abandoned_runs.load(std::memory_order_acquire) == 0) return;
    std::unique_lock lock(mutex);
    const auto is_free = [&] { return abandoned_runs == 0; };
    if (!deadline) {
      returned.wait(lock, is_free);
    } else if (!returned.wait_until(lock, *deadline, is_free)) {
      throw Error(ErrorCode::deadline_exceeded, busy_sentence());
    }
  }
};

namespace {

void measure_memory(const Runtime& runtime, runtime::Loaded& loaded, std::uint64_t limit_bytes) {
  try {
    (void)runtime.infer(synthetic_inputs(runtime.info().signature));
  } catch (const Error& error) {
    loaded.verdict.notes.push_back("the memory limit was checked without a warm-up run: " + error.message());
  }
  const std::uint64_t now = resident_bytes();
  const std::uint64_t used = now > loaded.resident_before_bytes ? now - loaded.resident_before_bytes : 0;
  if (used > limit_bytes) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("the model takes {} of memory after loading and one run, more than the {} allowed",
                            format_bytes(used), format_bytes(limit_bytes)));
  }
}

// Borrowed memory without an owner must not be read after the caller was told that the deadline has passed.
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

}  // namespace

Runtime::Runtime(const std::filesystem::path& model, const LoadOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  require_worker_for_sandbox(given);
  ModelInfo info = ModelInspector::inspect(model);
  LoadOptions options = given;
  const std::string name = options.worker_name.empty() ? info.name : options.worker_name;
  if (options.preflight)
    std::ranges::move(runtime::isolation::preflight(model, name, options),
                      std::back_inserter(options.crashed_providers));
  Signature signature = runtime::with_steps(info.signature, options);
  if (options.isolation == Isolation::process) {
    auto session = std::make_unique<runtime::isolation::RemoteSession>(model, name, options);
    const auto& names = session->report().output_names;
    if (options.pooled_output && names.size() == signature.outputs.size() + 1) {
      signature.outputs.push_back(onnx::pooled_entry(info.signature, *options.pooled_output));
    }
    info.signature = std::move(signature);
    state_ = std::make_shared<State>(std::move(info), std::move(session), options);
    state_->load_time = std::chrono::steady_clock::now() - start;
    return;
  }
  runtime::Loaded loaded = runtime::load(model, info, options);
  if (loaded.has_pooled_output && options.pooled_output) {
    signature.outputs.push_back(onnx::pooled_entry(info.signature, *options.pooled_output));
  }
  info.signature = std::move(signature);
  state_ = std::make_shared<State>(std::move(info), std::move(loaded), options);
  if (!options.isolation_reason.empty()) state_->loaded.verdict.notes.push_back(options.isolation_reason);
  state_->profile = options.profile;
  state_->load_time = std::chrono::steady_clock::now() - start;
  try {
    runtime::Loaded& made = state_->loaded;
    runtime::keep_memory_limit(options, made.memory_limited_by_provider, made.verdict,
                               [&] { measure_memory(*this, made, *options.memory_bytes); });
  } catch (const Error&) {
    runtime::discard_profile(state_->loaded);
    throw;
  }
}

Runtime::~Runtime() {
  if (!state_) return;
  try {
    finish_profile();
  } catch (const std::exception& exception) {
    log::warning("the profile was not written: {}", exception.what());
  }
}

Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;

// Calls `run` with a handle, or none, within the time that the options give it. A run that is not over by then goes on
// with what it holds: copies of `run` and of the state.
template <typename Run>
auto Runtime::State::within_time(const std::shared_ptr<State>& shared, const InferOptions& options, Run run) {
  using Results = decltype(run(*shared, nullptr));
  State& state = *shared;
  if (!options.timeout) {
    state.wait_until_free(std::nullopt);
    if (!options.stop.stop_possible()) return run(state, nullptr);
    runtime::StopHandle handle(state.remote != nullptr);
    const std::stop_callback stopping(options.stop, [&handle] { handle.stop(); });
    return run(state, &handle);
  }

  struct Outcome {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Results> results;
    std::optional<Error> error;
    bool abandoned = false;
    runtime::StopHandle handle;

    explicit Outcome(bool is_in_worker) : handle(is_in_worker) {}
  };

  const auto deadline = std::chrono::steady_clock::now() + *options.timeout;
  state.wait_until_free(deadline);
  auto outcome = std::make_shared<Outcome>(state.remote != nullptr);
  std::thread runner([shared, outcome, held = std::move(run).held()] {
    std::optional<Results> results;
    std::optional<Error> error;
    try {
      results = held(*shared, &outcome->handle);
    } catch (const Error& failure) {
      error = failure;
    } catch (const std::exception& failure) {
      error = Error(ErrorCode::internal, failure.what());
    }
    {
      const std::lock_guard lock(outcome->mutex);
      outcome->results = std::move(results);
      outcome->error = std::move(error);
      if (outcome->abandoned) {
        const std::lock_guard state_lock(shared->mutex);
        --shared->abandoned_runs;
        shared->returned.notify_all();
      }
    }
    outcome->done.notify_all();
  });

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
  if (!state_->uses_device()) return DeviceTensor(tensor);
  return runtime::DeviceTensorState::wrap(state_->loaded.session->upload(tensor, input));
}

bool Runtime::keeps_on_device() const noexcept {
  return state_->keeps_on_device();
}

bool Runtime::uses_pinned_memory() const noexcept {
  return !state_->remote && state_->loaded.session->uses_pinned_memory();
}

TransferCounts Runtime::transfers() const noexcept {
  return state_->remote ? TransferCounts() : state_->loaded.session->transfers();
}

NamedValues Runtime::infer(const Tensor& input, const InferOptions& options) const {
  const auto& inputs = info().signature.inputs;
  if (inputs.empty()) throw Error(ErrorCode::invalid_input, "the model has no input");
  return infer(NamedValues{{inputs.front().name, input}}, options);
}

const ModelInfo& Runtime::info() const noexcept {
  return state_->info;
}

const Verdict& Runtime::verdict() const noexcept {
  return state_->loaded.verdict;
}

const OptimizedGraph& Runtime::written_graph() const noexcept {
  return state_->loaded.written_graph;
}

const std::filesystem::path& Runtime::weights_file() const noexcept {
  return state_->loaded.weights_file;
}

RunSharing Runtime::run_sharing(const SharingTrialOptions& options) const {
  State& state = *state_;
  const std::lock_guard lock(state.sharing_mutex);
  if (state.sharing) return *state.sharing;
  const runtime::SharingSubject subject =
      runtime::sharing_subject(state.info, state.loaded.weights_file, state.options);
  state.sharing =
      runtime::decide_without_trial(runtime::sharing_facts(state.info.signature, subject.operators, state.options));
  if (state.sharing) return *state.sharing;
  const bool is_worth_a_trial = options.requests >= runtime::min_requests_for_a_trial;
  if (!is_worth_a_trial && !runtime::may_have_kept_trials(subject.files)) {
    return runtime::too_few_for_a_trial(options.requests);
  }
  std::string conditions = state.loaded.computed_by;
  for (const auto& sizes : options.sizes) {
    conditions += "sizes";
    for (const auto& [name, size] : sizes) conditions += fmt::format(" {}={}", name, size);
    conditions += '\n';
  }
  const std::string computed_by = sha256_of(conditions);
  const std::filesystem::path file = runtime::kept_trials_file(subject.files);
  for (const runtime::KeptTrial& kept : runtime::read_kept_trials(file)) {
    if (kept.computed_by != computed_by) continue;
    state.sharing = runtime::decide_by_trial(kept.trial);
    return *state.sharing;
  }
  if (!is_worth_a_trial) return runtime::too_few_for_a_trial(options.requests);
  const auto run = [this](const NamedValues& inputs, std::chrono::nanoseconds limit) {
    return infer(inputs, {.timeout = std::chrono::ceil<std::chrono::milliseconds>(limit), .outputs = {}});
  };
  const runtime::SharingTrial trial = runtime::try_sharing(state.info.signature, options.sizes, run);
  if (runtime::is_worth_keeping(trial)) {
    runtime::keep_trial(file, {.computed_by = computed_by,
                               .provider = join(state.loaded.verdict.active, ","),
                               .runtime_version = state.loaded.verdict.runtime_version,
                               .trial = trial});
  }
  state.sharing = runtime::decide_by_trial(trial);
  return *state.sharing;
}

std::chrono::duration<double, std::milli> Runtime::load_time() const noexcept {
  return state_->load_time;
}

std::optional<WorkerStatus> Runtime::worker() const {
  if (!state_->remote) return std::nullopt;
  return state_->remote->status();
}

std::optional<std::string> Runtime::lost_device() const {
  if (!state_->has_lost_device) return std::nullopt;
  const std::lock_guard lock(state_->device_mutex);
  return state_->lost_device.empty() ? std::nullopt : std::optional(state_->lost_device);
}

std::vector<Runtime::PlacedNode> Runtime::placement() const {
  if (state_->remote) return state_->remote->report().placement;
  std::vector<PlacedNode> nodes;
  for (ort::AssignedNode& node : state_->loaded.session->assignment()) {
    std::string id = node.provider;
    for (const ProviderAttempt& attempt : state_->loaded.verdict.tried) {
      if (attempt.ort_name == node.provider) id = attempt.id;
    }
    nodes.push_back({std::move(id), std::move(node.name), std::move(node.domain), std::move(node.operator_type)});
  }
  return nodes;
}

void Runtime::finish_profile() {
  if (state_->loaded.profile_prefix.empty()) return;
  state_->loaded.profile_prefix.clear();
  const std::filesystem::path written = state_->loaded.session->end_profiling();
  std::error_code error;
  std::filesystem::rename(written, state_->profile, error);
  if (error) {
    throw Error(ErrorCode::storage,
                fmt::format("cannot write the profile '{}': {}", state_->profile.string(), error.message()));
  }
}

}  // namespace gpux

namespace gpux::runtime {

SessionReplica::SessionReplica(const Runtime& runtime, std::size_t device, std::vector<unsigned> processors,
                               bool waits_for_worker, std::shared_ptr<ort::ComputeTurn> turn)
    : runtime_(runtime),
      device_(device),
      processors_(std::move(processors)),
      waits_for_worker_(waits_for_worker),
      turn_(std::move(turn)) {}

SessionReplica::~SessionReplica() = default;

template <typename Run>
auto SessionReplica::stoppable(const Run& run) {
  // One for each run: a stop that comes too late must not end the next.
  StopHandle handle(runtime_.state_->remote != nullptr);
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
  using isolation::WorkerAbsence;
  has_lost_its_worker_ = false;
  const BoundThread bound(processors_);
  const WorkerAbsence absence = waits_for_worker ? WorkerAbsence::wait : WorkerAbsence::fail;
  try {
    return stoppable([&](StopHandle* handle) { return runtime_.state_->run(inputs, outputs, handle, absence); });
  } catch (const isolation::WorkerEnded&) {
    has_lost_its_worker_ = true;
    throw;
  }
}

NamedValues SessionReplica::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                StopHandle& handle) const {
  return runtime_.state_->run(inputs, outputs, &handle);
}

NamedDeviceTensors SessionReplica::run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                                 const std::vector<std::size_t>& outputs) {
  return stoppable(
      [&](StopHandle* handle) { return runtime_.state_->run_on_device(inputs, device_inputs, outputs, handle); });
}

bool SessionReplica::keeps_on_device(std::string_view output) const {
  const Runtime::State& state = *runtime_.state_;
  if (!state.keeps_on_device()) return false;
  return state.loaded.session->keeps_on_device(state.output_indices({std::string(output)}).front());
}

const std::vector<std::string>& SessionReplica::output_names() const noexcept {
  return runtime_.state_->output_names();
}

const std::string& SessionReplica::computed_by() const noexcept {
  return runtime_.state_->loaded.computed_by;
}

Value SessionReplica::run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::string_view output) {
  if (runtime_.state_->remote) {
    throw Error(ErrorCode::usage,
                "isolation 'process' does not support models that update caches in place; accepted: "
                "thread");
  }
  const std::size_t index = runtime_.state_->output_indices({std::string(output)}).front();
  return stoppable([&](StopHandle* handle) {
    return runtime_.state_->loaded.session->run_in_place(inputs, in_place, index, handle->here());
  });
}

void SessionReplica::stop() {
  const std::lock_guard lock(mutex_);
  if (running_ != nullptr) running_->stop();
}

}  // namespace gpux::runtime
