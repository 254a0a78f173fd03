#include <algorithm>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/spelling.h"
#include "ort/device_value.h"
#include "ort/input_memory.h"
#include "ort/session.h"
#include "ort/session_state.h"

/// Values that stay on a session's device.
namespace gpux::ort {
namespace {

MemoryFacts facts_of(const Ort::ConstMemoryInfo& memory) {
  const bool is_host = memory.GetDeviceType() == OrtMemoryInfoDeviceType_CPU ||
                       memory.GetDeviceMemoryType() == OrtDeviceMemoryType_HOST_ACCESSIBLE;
  return {.is_host = is_host,
          .device_type = memory.GetDeviceType(),
          .vendor = memory.GetVendorId(),
          .device = memory.GetDeviceId()};
}

std::vector<MemoryFacts> plugin_memories(const SessionSettings& settings) {
  const std::vector<Ort::ConstEpDevice> all = environment().GetEpDevices();
  std::vector<MemoryFacts> memories;
  for (const ProviderAppend& provider : settings.providers) {
    if (provider.way != ProviderAppend::Way::by_device) continue;
    for (const std::size_t index : provider.devices) {
      const OrtMemoryInfo* const memory = Ort::GetApi().EpDevice_MemoryInfo(all.at(index), OrtDeviceMemoryType_DEFAULT);
      if (memory != nullptr) memories.push_back(facts_of(Ort::ConstMemoryInfo(memory)));
    }
  }
  return memories;
}

ValuePlaces places_of(std::vector<Ort::ConstMemoryInfo> memories, const std::vector<MemoryFacts>& plugin_devices) {
  ValuePlaces found;
  for (const Ort::ConstMemoryInfo& memory : memories) {
    found.places.push_back(place_of(facts_of(memory), plugin_devices));
  }
  found.memories = std::move(memories);
  return found;
}

std::size_t bytes_of(const Value& value) {
  if (const Tensor* tensor = value.tensor()) return tensor->byte_size();
  return 0;
}

}  // namespace

bool has_own_memory(const ProviderAppend& provider) {
  SessionSettings settings;
  settings.providers.push_back(provider);
  return std::ranges::any_of(plugin_memories(settings), [](const MemoryFacts& memory) { return !memory.is_host; });
}

struct DeviceValue::State {
  std::shared_ptr<const void> session;  // before the value, whose memory it may own
  const Session::State* counter = nullptr;
  Ort::Allocator allocator{nullptr};  // of uploaded values
  Ort::Value value{nullptr};          // nothing: `host` has it
  Tensor host;
  ElementType type = ElementType::undefined;
  Shape shape;
  std::size_t byte_size = 0;
  MemoryFacts memory;

  static DeviceValue of_host(Tensor tensor) {
    auto state = std::make_shared<State>();
    state->type = tensor.type();
    state->shape = tensor.shape();
    state->byte_size = tensor.byte_size();
    state->host = std::move(tensor);
    return DeviceValue(std::move(state));
  }

  static DeviceValue of_device(Ort::Value&& value, const Ort::ConstMemoryInfo& memory,
                               const std::shared_ptr<Session::State>& session,
                               Ort::Allocator&& allocator = Ort::Allocator{nullptr}) {
    auto state = std::make_shared<State>();
    const auto description = value.GetTensorTypeAndShapeInfo();
    state->type = from_ort(description.GetElementType());
    state->shape = description.GetShape();
    state->byte_size = (static_cast<std::size_t>(element_count(state->shape)) * bits_of(state->type) + 7) / 8;
    state->session = session;
    state->counter = session.get();
    state->memory = facts_of(memory);
    state->allocator = std::move(allocator);
    state->value = std::move(value);
    return DeviceValue(std::move(state));
  }
};

void Session::State::find_places(const SessionSettings& settings) {
  try {
    const std::vector<MemoryFacts> plugin_devices = plugin_memories(settings);
    inputs = places_of(session.GetMemoryInfoForInputs(), plugin_devices);
    outputs = places_of(session.GetMemoryInfoForOutputs(), plugin_devices);
  } catch (const Ort::Exception& exception) {
    // What is not known is treated as host memory: ONNX Runtime copies as it sees fit.
    log::debug("where the session has its inputs and outputs is not known: {}", exception.what());
    inputs = outputs = {};
  }
}

void Session::State::count_to_device(std::size_t bytes) const noexcept {
  ++copies[0];
  copies[1] += bytes;
}

void Session::State::count_from_device(std::size_t bytes) const noexcept {
  ++copies[2];
  copies[3] += bytes;
}

void Session::State::count_inputs(const NamedValues& values) const {
  if (inputs.places.empty()) return;
  for (const auto& [name, value] : values) {
    const auto found = std::ranges::find(input_names, name);
    if (found == input_names.end() || inputs.of(static_cast<std::size_t>(found - input_names.begin())) == Place::host) {
      continue;
    }
    count_to_device(bytes_of(value));
  }
}

void Session::State::count_output(std::size_t output, const Value& value) const {
  if (outputs.of(output) != Place::host) count_from_device(bytes_of(value));
}

void Session::State::count_outputs(const NamedValues& values) const {
  if (outputs.places.empty()) return;
  for (const auto& [name, value] : values) {
    const auto found = std::ranges::find(output_names, name);
    if (found != output_names.end()) count_output(static_cast<std::size_t>(found - output_names.begin()), value);
  }
}

bool Session::State::has_input_in(const std::string& name, const MemoryFacts& memory) const {
  const auto found = std::ranges::find(input_names, name);
  if (found == input_names.end() || inputs.memories.empty()) return false;
  return facts_of(inputs.memories[static_cast<std::size_t>(found - input_names.begin())]) == memory;
}

bool Session::uses_device() const noexcept {
  const auto& places = state_->inputs.places;
  return keeps_on_device() || std::ranges::find(places, Place::device) != places.end();
}

bool Session::keeps_on_device() const noexcept {
  return std::ranges::find(state_->outputs.places, Place::device) != state_->outputs.places.end();
}

bool Session::keeps_on_device(std::size_t output) const noexcept {
  return state_->outputs.of(output) == Place::device;
}

TransferCounts Session::transfers() const noexcept {
  const auto& copies = state_->copies;
  return {
      .to_device = copies[0], .to_device_bytes = copies[1], .from_device = copies[2], .from_device_bytes = copies[3]};
}

DeviceValue Session::upload(const Tensor& tensor, std::string_view input) const {
  const auto found = std::ranges::find(state_->input_names, input);
  if (found == state_->input_names.end()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("there is no input '{}'; inputs: {}", input, join(state_->input_names)));
  }
  const auto index = static_cast<std::size_t>(found - state_->input_names.begin());
  if (state_->inputs.of(index) != Place::device) return DeviceValue::State::of_host(tensor);
  if (tensor.type() == ElementType::string) {
    throw Error(ErrorCode::invalid_input, fmt::format("input '{}' is on a device, which holds no strings", input));
  }
  try {
    Ort::Allocator allocator(state_->session, state_->inputs.memories[index]);
    std::vector<Ort::Value> from, to;
    from.push_back(wrap(tensor));
    to.push_back(
        Ort::Value::CreateTensor(allocator, tensor.shape().data(), tensor.shape().size(), ort::to_ort(tensor.type())));
    if (tensor.byte_size() != 0) {
      Ort::ThrowOnError(environment().CopyTensors(from, to, nullptr));
      state_->count_to_device(tensor.byte_size());
    }
    return DeviceValue::State::of_device(std::move(to.front()), state_->inputs.memories[index], state_,
                                         std::move(allocator));
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

NamedDeviceValues Session::run_on_device(const NamedValues& inputs, const NamedDeviceValues& device_inputs,
                                         const std::vector<std::size_t>& outputs, RunHandle* handle) const {
  try {
    Ort::IoBinding binding(state_->session);
    for (const auto& [name, value] : inputs) {
      if (!value.is_none()) binding.BindInput(name.c_str(), state_->wrap_input(name, value));
    }
    NamedValues of_host;
    for (const auto& [name, value] : device_inputs) {
      if (value.is_on_device() && state_->has_input_in(name, value.state_->memory)) {
        binding.BindInput(name.c_str(), value.state_->value);
      } else {
        of_host.emplace_back(name, value.read());
        binding.BindInput(name.c_str(), wrap(of_host.back().second));
      }
    }
    static const Ort::MemoryInfo host = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    for (const std::size_t output : outputs) {
      const bool stays = state_->outputs.of(output) == Place::device;
      binding.BindOutput(state_->output_names.at(output).c_str(),
                         stays ? static_cast<const OrtMemoryInfo*>(state_->outputs.memories[output]) : host);
    }
    const StoppableRun stoppable(handle == nullptr || !state_->has_plugins ? nullptr : handle->options_.get(),
                                 state_->session);
    binding.SynchronizeInputs();
    state_->session.Run(handle == nullptr ? state_->run_options : handle->options_->options, binding);
    binding.SynchronizeOutputs();
    state_->count_inputs(inputs);
    state_->count_inputs(of_host);
    std::vector<Ort::Value> values = binding.GetOutputValues();
    const InputMemory of_inputs(inputs, std::pmr::get_default_resource());
    const InputMemory of_others(of_host, std::pmr::get_default_resource());
    NamedDeviceValues results;
    results.reserve(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = state_->output_names[outputs[i]];
      if (!values.at(i) || !values[i].IsTensor()) {
        throw Error(
            ErrorCode::invalid_input,
            fmt::format("output '{}' is no tensor, and only tensors stay on a device; accepted: infer()", name));
      }
      if (state_->outputs.of(outputs[i]) == Place::device) {
        results.emplace_back(
            name, DeviceValue::State::of_device(std::move(values[i]), state_->outputs.memories[outputs[i]], state_));
      } else {
        Value value = unwrap(std::move(values[i]));
        of_inputs.replace_shared(value);
        of_others.replace_shared(value);
        state_->count_output(outputs[i], value);
        results.emplace_back(name, DeviceValue::State::of_host(std::get<Tensor>(std::move(value))));
      }
    }
    return results;
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

ElementType DeviceValue::type() const noexcept {
  return state_ ? state_->type : ElementType::undefined;
}

const Shape& DeviceValue::shape() const noexcept {
  static const Shape none;
  return state_ ? state_->shape : none;
}

std::size_t DeviceValue::byte_size() const noexcept {
  return state_ ? state_->byte_size : 0;
}

bool DeviceValue::is_on_device() const noexcept {
  return state_ && state_->counter != nullptr;
}

Tensor DeviceValue::read() const {
  if (!state_) return {};
  if (!is_on_device()) return state_->host;
  Tensor copy = Tensor::allocate(state_->type, state_->shape);
  if (state_->byte_size == 0) return copy;
  try {
    const OrtValue* const from = state_->value;
    Ort::Value to = wrap(Value(copy));
    OrtValue* const target = to;
    Ort::ThrowOnError(Ort::GetApi().CopyTensors(environment(), &from, &target, nullptr, 1));
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
  state_->counter->count_from_device(state_->byte_size);
  return copy;
}

}  // namespace gpux::ort
