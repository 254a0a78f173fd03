#include <algorithm>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "ort/device_value_state.h"
#include "ort/input_memory.h"
#include "ort/session.h"
#include "ort/session_state.h"

/// Runs whose inputs and outputs are bound, in host memory or on the device.
namespace gpux::ort {
namespace {

// Holds one of the turns; without a handle that takes turns, nothing.
class Turn {
 public:
  Turn(ComputeTurn* turn, const std::atomic<bool>& is_stopped) : turn_(turn) {
    if (turn_ != nullptr && !turn_->take(is_stopped)) {
      throw Error(ErrorCode::interrupted, "the run was stopped before it computed");
    }
  }

  ~Turn() {
    if (turn_ != nullptr) turn_->give_back();
  }

  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  ComputeTurn* turn_;
};

const Ort::MemoryInfo& host_memory() {
  static const Ort::MemoryInfo info = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  return info;
}

}  // namespace

/// What one run has bound.
struct Session::BoundRun {
  const State& state;
  Ort::IoBinding binding;
  std::vector<StagedValue> inputs;   // which the binding refers to
  std::vector<GivenShape> shapes;    // of the inputs
  std::vector<StagedValue> outputs;  // with a value: that output is preallocated

  explicit BoundRun(State& session) : state(session), binding(session.session) {}

  void bind_inputs(const NamedValues& values) {
    std::vector<const std::string*> names;
    std::vector<const Tensor*> tensors;
    for (const auto& [name, value] : values) {
      if (value.is_none()) continue;
      const Tensor* const tensor = value.tensor();
      if (tensor != nullptr) note_shape(name, tensor->shape());
      if (is_staged(name, tensor)) {
        names.push_back(&name);
        tensors.push_back(tensor);
      } else {
        binding.BindInput(name.c_str(), state.wrap_input(name, value));
        state.count_input(name, value);
      }
    }
    if (tensors.empty()) return;
    std::vector<StagedValue> staged = state.staging->copy_in(tensors, state.copies);
    for (std::size_t i = 0; i < staged.size(); ++i) {
      if (staged[i].value) {
        binding.BindInput(names[i]->c_str(), staged[i].value);
        inputs.push_back(std::move(staged[i]));
      } else {
        binding.BindInput(names[i]->c_str(), wrap(*tensors[i]));
        state.copies.count_to_device(tensors[i]->byte_size());
      }
    }
  }

  void note_shape(const std::string& name, const Shape& shape) {
    const auto found = std::ranges::find(state.input_names, name);
    if (state.staging == nullptr || found == state.input_names.end()) return;
    shapes.push_back({.declared = &state.declared_inputs[static_cast<std::size_t>(found - state.input_names.begin())],
                      .shape = &shape});
  }

  [[nodiscard]] bool is_staged(const std::string& name, const Tensor* tensor) const {
    if (state.staging == nullptr || tensor == nullptr || tensor->byte_size() == 0) return false;
    const auto found = std::ranges::find(state.input_names, name);
    return found != state.input_names.end() &&
           state.inputs.of(static_cast<std::size_t>(found - state.input_names.begin())) == Place::device;
  }

  void bind_outputs(std::span<const std::size_t> indices, Kept kept, bool may_preallocate) {
    outputs.clear();
    for (const std::size_t output : indices) {
      const std::string& name = state.output_names.at(output);
      StagedValue& preallocated = outputs.emplace_back();
      if (may_preallocate) preallocated = preallocate(output);
      if (preallocated.value) {
        binding.BindOutput(name.c_str(), preallocated.value);
      } else {
        const bool stays = state.stays_on_device(output, kept);
        binding.BindOutput(name.c_str(),
                           stays ? static_cast<const OrtMemoryInfo*>(state.outputs.memories[output]) : host_memory());
      }
    }
  }

  void bind_in_place(const NamedDeviceValues& values) {
    for (const auto& [name, value] : values) {
      if (!value.is_on_device() || !state.has_output_in(name, value.state_->memory)) {
        throw Error(ErrorCode::internal, fmt::format("output '{}' is not made in the memory that was given", name));
      }
      binding.BindOutput(name.c_str(), value.state_->staged.value);
    }
  }

  // Without a value: the shape is not known before the run, or there is no memory.
  [[nodiscard]] StagedValue preallocate(std::size_t output) const {
    if (state.staging == nullptr || state.outputs.of(output) != Place::device || state.is_misdeclared[output])
      return {};
    // An output that is an input is not computed.
    if (std::ranges::find(state.input_names, state.output_names[output]) != state.input_names.end()) return {};
    const DeclaredTensor& declared = state.declared_outputs[output];
    const std::optional<Shape> shape = expected_shape(declared, shapes);
    return shape ? state.staging->device_value(declared.type, *shape) : StagedValue();
  }

  [[nodiscard]] bool has_preallocated() const {
    return std::ranges::any_of(outputs, [](const StagedValue& output) { return static_cast<bool>(output.value); });
  }

  // The outputs, by `indices`, in the preallocated memory where they were made in it.
  [[nodiscard]] std::vector<StagedValue> take_outputs() {
    std::vector<Ort::Value> values = binding.GetOutputValues();
    std::vector<StagedValue> taken(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      taken[i].value = std::move(values.at(i));
      const bool is_there = outputs[i].value && taken[i].value && taken[i].value.IsTensor() &&
                            taken[i].value.GetTensorRawData() == outputs[i].block.get();
      if (is_there) taken[i].block = std::move(outputs[i].block);
    }
    return taken;
  }

  // After a run that showed that a declaration is wrong, and one without preallocated outputs.
  void note_misdeclared(std::span<const std::size_t> indices, std::span<const StagedValue> expected) const {
    const std::vector<Ort::Value> values = binding.GetOutputValues();
    const auto differs = [&](std::size_t i) {
      return expected[i].value && values.at(i).GetTensorTypeAndShapeInfo().GetShape() !=
                                      expected[i].value.GetTensorTypeAndShapeInfo().GetShape();
    };
    std::vector<std::size_t> wrong;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (differs(i)) wrong.push_back(i);
    }
    for (std::size_t i = 0; i < indices.size() && wrong.empty(); ++i) {
      if (expected[i].value) wrong.push_back(i);
    }
    for (const std::size_t i : wrong) {
      if (state.is_misdeclared[indices[i]].exchange(true)) continue;
      log::info("output '{}' has another shape than the model declares: its memory is not allocated before runs",
                state.output_names[indices[i]]);
    }
  }
};

std::vector<StagedValue> Session::run_bound(const NamedValues& inputs, const NamedDeviceValues& device_inputs,
                                            const std::vector<std::size_t>& outputs, RunHandle* handle,
                                            const NamedDeviceValues& in_place, Kept kept) const {
  BoundRun run(*state_);
  run.bind_inputs(inputs);
  for (const auto& [name, value] : device_inputs) {
    run.note_shape(name, value.shape());
    run.binding.BindInput(name.c_str(), value.state_->staged.value);
  }
  run.bind_outputs(outputs, kept, true);
  run.bind_in_place(in_place);
  RunHandle::Options* const given = handle == nullptr ? nullptr : handle->options_.get();
  const StoppableRun stoppable(state_->has_plugins ? given : nullptr, state_->session);
  std::optional<Ort::RunOptions> own;
  const Ort::RunOptions& options =
      state_->options_of_run(given, in_place.empty() ? outputs : state_->all_outputs(), own);
  const auto compute = [&] {
    // What is staged has been copied when it is bound, and a run ends when its outputs are made.
    const bool is_staged = state_->staging != nullptr;
    const std::atomic<bool> never_stopped = false;
    const Turn turn(is_staged && given != nullptr ? given->turn : nullptr,
                    given == nullptr ? never_stopped : given->is_stopped);
    if (!is_staged) run.binding.SynchronizeInputs();
    state_->session.Run(options, run.binding);
    if (!is_staged) run.binding.SynchronizeOutputs();
  };
  try {
    compute();
  } catch (const Ort::Exception& exception) {
    if (state_->staging != nullptr && translate(exception).code() == ErrorCode::resource_exhausted &&
        state_->staging->free_kept()) {
      compute();
      return run.take_outputs();
    }
    if (!run.has_preallocated() || !is_about_preallocated_memory(exception.what())) throw;
    const std::vector<StagedValue> expected = std::move(run.outputs);
    run.binding.ClearBoundOutputs();
    run.bind_outputs(outputs, kept, false);
    run.bind_in_place(in_place);
    compute();
    run.note_misdeclared(outputs, expected);
  }
  return run.take_outputs();
}

NamedValues Session::run_staged(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                RunHandle* handle) const {
  try {
    std::vector<StagedValue> values = run_bound(inputs, {}, outputs, handle);
    std::vector<const OrtValue*> on_device;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (state_->is_tensor_of_device(outputs[i], values[i].value)) on_device.push_back(values[i].value);
    }
    std::vector<Tensor> copied = state_->staging->copy_out(on_device, state_->copies);
    const InputMemory input_memory(inputs, std::pmr::get_default_resource());
    NamedValues results;
    results.reserve(outputs.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = state_->output_names[outputs[i]];
      if (state_->is_tensor_of_device(outputs[i], values[i].value)) {
        results.emplace_back(name, std::move(copied[next++]));
        continue;
      }
      results.emplace_back(name, unwrap(std::move(values[i].value)));
      input_memory.replace_shared(results.back().second);
      state_->count_output(outputs[i], results.back().second);
    }
    return results;
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

NamedDeviceValues Session::run_on_device(const NamedValues& inputs, const NamedDeviceValues& device_inputs,
                                         const std::vector<std::size_t>& outputs, RunHandle* handle,
                                         const NamedDeviceValues& in_place, Kept kept) const {
  NamedValues of_host = inputs;
  NamedDeviceValues of_device;
  for (const auto& [name, value] : device_inputs) {
    if (value.is_on_device() && state_->has_input_in(name, value.state_->memory)) {
      of_device.emplace_back(name, value);
    } else {
      of_host.emplace_back(name, value.read());
    }
  }
  try {
    std::vector<StagedValue> values = run_bound(of_host, of_device, outputs, handle, in_place, kept);
    const InputMemory input_memory(of_host, std::pmr::get_default_resource());
    NamedDeviceValues results;
    results.reserve(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = state_->output_names[outputs[i]];
      if (!values.at(i).value || !values[i].value.IsTensor()) {
        throw Error(
            ErrorCode::invalid_input,
            fmt::format("output '{}' is no tensor, and only tensors stay on a device; accepted: infer()", name));
      }
      if (state_->stays_on_device(outputs[i], kept)) {
        results.emplace_back(
            name, DeviceValue::State::of_device(std::move(values[i]), state_->outputs.memories[outputs[i]], state_));
      } else {
        Value value = unwrap(std::move(values[i].value));
        input_memory.replace_shared(value);
        state_->count_output(outputs[i], value);
        results.emplace_back(name, DeviceValue::State::of_host(std::get<Tensor>(std::move(value))));
      }
    }
    return results;
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

}  // namespace gpux::ort
