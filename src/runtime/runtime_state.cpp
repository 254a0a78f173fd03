#include "runtime/runtime_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "runtime/device_tensor_state.h"
#include "runtime/load_facts.h"

namespace gpux {
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
                         .identity = report.identity,
                         .written_graph = {}};
  const std::string& reason = facts_of(options).isolation_reason;
  loaded.verdict.notes.emplace_back(reason.empty() ? "the model runs in a worker process" : reason);
  return loaded;
}

// A stranger's model has to be known as one.
void note_missing_sandbox(const LoadOptions& options, Verdict& verdict) {
  const std::string& origin = facts_of(options).pulled_from;
  if (origin.empty() || options.sandbox != Sandbox::off) return;
  verdict.notes.emplace_back(fmt::format("not sandboxed: the model comes from {}{}", origin,
                                         options.isolation == Isolation::thread ? " and runs in this process" : ""));
}

}  // namespace

Runtime::State::State(ModelInfo model_info, runtime::Loaded&& session, const LoadOptions& load_options)
    : info(std::move(model_info)), loaded(std::move(session)), steps(load_options), options(load_options) {
  note_missing_sandbox(options, loaded.verdict);
  note_outputs();
  note_compiled_shapes();
}

Runtime::State::State(ModelInfo model_info, std::unique_ptr<runtime::isolation::RemoteSession> session,
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

void Runtime::State::note_device(const std::string& error) const {
  const std::lock_guard lock(device_mutex);
  lost_device = error;
  has_lost_device = !error.empty();
}

NamedDeviceTensors Runtime::State::run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                                 const std::vector<std::size_t>& outputs, runtime::StopHandle* handle,
                                                 const NamedDeviceTensors& in_place, ort::Kept kept) const {
  using runtime::DeviceTensorState;
  runtime::check_compiled_shapes(profile_of_shapes, inputs, device_inputs);
  NamedDeviceTensors results;
  const bool is_here = !remote && !steps;
  if (!uses_device() && !(is_here && (kept == ort::Kept::all || !in_place.empty()))) {
    NamedValues all = inputs;
    for (const auto& [name, tensor] : device_inputs) all.emplace_back(name, tensor.read());
    for (auto& [name, value] : run(all, outputs, handle)) {
      const Tensor* tensor = value.tensor();
      if (tensor == nullptr) {
        throw Error(ErrorCode::invalid_input,
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
  ort::NamedDeviceValues written;
  for (const auto& [name, tensor] : in_place) {
    const ort::DeviceValue* const value = DeviceTensorState::device_value(tensor);
    written.emplace_back(name, value == nullptr ? ort::DeviceValue() : *value);
  }
  ort::NamedDeviceValues values = noting_device([&] {
    return loaded.session->run_on_device(of_host, of_device, outputs, handle == nullptr ? nullptr : handle->here(),
                                         written, kept);
  });
  for (auto& [name, value] : values) {
    results.emplace_back(std::move(name), DeviceTensorState::wrap(std::move(value)));
  }
  return results;
}

std::vector<std::size_t> Runtime::State::output_indices(const std::vector<std::string>& names) const {
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

std::string Runtime::State::busy_sentence() const {
  return fmt::format("the model ({}) has not stopped yet after an earlier deadline", join(loaded.verdict.active));
}

void Runtime::State::wait_until_free(std::optional<std::chrono::steady_clock::time_point> deadline) {
  if (abandoned_runs.load(std::memory_order_acquire) == 0) return;
  std::unique_lock lock(mutex);
  const auto is_free = [&] { return abandoned_runs == 0; };
  if (!deadline) {
    returned.wait(lock, is_free);
  } else if (!returned.wait_until(lock, *deadline, is_free)) {
    throw Error(ErrorCode::deadline_exceeded, busy_sentence());
  }
}

}  // namespace gpux
