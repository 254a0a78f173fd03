#include "ort/session_state.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/changing_files.h"
#include "base/log.h"
#include "ort/session.h"

/// Where a session has its inputs and outputs.
namespace gpux::ort {

MemoryFacts facts_of(const Ort::ConstMemoryInfo& memory) {
  const bool is_pinned = memory.GetDeviceMemoryType() == OrtDeviceMemoryType_HOST_ACCESSIBLE;
  return {.is_host = is_pinned || memory.GetDeviceType() == OrtMemoryInfoDeviceType_CPU,
          .is_pinned = is_pinned,
          .device_type = memory.GetDeviceType(),
          .vendor = memory.GetVendorId(),
          .device = memory.GetDeviceId()};
}

namespace {

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

/// What ONNX Runtime has of a plugin's device.
struct DeviceMemories {
  Ort::ConstMemoryInfo device;
  Ort::ConstMemoryInfo pinned;
};

// The memory of the device that these have in common, with the pinned memory of the host for it. Empty: there are
// several, or there is no pinned memory.
std::optional<DeviceMemories> staged_memories(const SessionSettings& settings, const ValuePlaces& inputs,
                                              const ValuePlaces& outputs) {
  std::optional<MemoryFacts> wanted;
  for (const ValuePlaces* values : {&inputs, &outputs}) {
    for (std::size_t i = 0; i < values->places.size(); ++i) {
      if (values->places[i] != Place::device) continue;
      const MemoryFacts facts = facts_of(values->memories[i]);
      if (wanted && !(*wanted == facts)) return std::nullopt;
      wanted = facts;
    }
  }
  if (!wanted) return std::nullopt;
  const std::vector<Ort::ConstEpDevice> all = environment().GetEpDevices();
  for (const ProviderAppend& provider : settings.providers) {
    if (provider.way != ProviderAppend::Way::by_device) continue;
    for (const std::size_t index : provider.devices) {
      const OrtApi& api = Ort::GetApi();
      const OrtMemoryInfo* const device = api.EpDevice_MemoryInfo(all.at(index), OrtDeviceMemoryType_DEFAULT);
      const OrtMemoryInfo* const pinned = api.EpDevice_MemoryInfo(all.at(index), OrtDeviceMemoryType_HOST_ACCESSIBLE);
      if (device == nullptr || pinned == nullptr || !(facts_of(Ort::ConstMemoryInfo(device)) == *wanted)) continue;
      return DeviceMemories{Ort::ConstMemoryInfo(device), Ort::ConstMemoryInfo(pinned)};
    }
  }
  return std::nullopt;
}

DeclaredTensor declared(const Ort::TypeInfo& type) {
  DeclaredTensor tensor;
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) return tensor;
  const auto description = type.GetTensorTypeAndShapeInfo();
  tensor.type = from_ort(description.GetElementType());
  const std::vector<std::int64_t> sizes = description.GetShape();
  const std::vector<const char*> names = description.GetSymbolicDimensions();
  for (std::size_t i = 0; i < sizes.size(); ++i) tensor.sizes.push_back({.size = sizes[i], .name = names.at(i)});
  return tensor;
}

// Whether the value of this name is in that memory.
bool is_in(const std::string& name, const std::vector<std::string>& names, const ValuePlaces& values,
           const MemoryFacts& memory) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end() || values.memories.empty()) return false;
  return facts_of(values.memories[static_cast<std::size_t>(found - names.begin())]) == memory;
}

}  // namespace

bool has_own_memory(const ProviderAppend& provider) {
  SessionSettings settings;
  settings.providers.push_back(provider);
  return std::ranges::any_of(plugin_memories(settings), [](const MemoryFacts& memory) { return !memory.is_host; });
}

std::shared_mutex& Session::State::mapping_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

std::shared_ptr<Session::State> Session::State::create(const SessionSettings& settings,
                                                       const std::function<Ort::Session()>& make) {
  const ChangingFiles files(settings.changing_files);
  std::shared_ptr<State> state;
  {
    const std::shared_lock mapping(mapping_mutex());
    state = std::make_shared<State>(make(), settings);
  }
  // Without external data it waits for no other session that is being made.
  if (files.are_mapped()) {
    const std::unique_lock alone(mapping_mutex());
    files.detach();
  } else {
    files.require_unchanged();
  }
  return state;
}

void Session::State::find_places(const SessionSettings& settings) {
  try {
    const std::vector<MemoryFacts> plugin_devices = plugin_memories(settings);
    inputs = places_of(session.GetMemoryInfoForInputs(), plugin_devices);
    outputs = places_of(session.GetMemoryInfoForOutputs(), plugin_devices);
    stage_values(settings);
  } catch (const Ort::Exception& exception) {
    // What is not known is treated as host memory: ONNX Runtime copies as it sees fit.
    log::debug("where the session has its inputs and outputs is not known: {}", exception.what());
    inputs = outputs = {};
  }
}

const Ort::RunOptions& Session::State::options_of_run(RunHandle::Options* handle,
                                                      const std::vector<std::size_t>& wanted,
                                                      std::optional<Ort::RunOptions>& own) const {
  const bool reads_all = wanted.size() >= output_names.size();
  if (has_plugins && (handle != nullptr || !reads_all)) {
    std::string read;
    for (const std::size_t output : wanted) {
      if (!reads_all) read += (read.empty() ? "" : "\n") + output_names.at(output);
    }
    if (handle == nullptr) own.emplace();
    (own ? *own : handle->options).AddConfigEntry(RunHandle::outputs_option, read.c_str());
  }
  if (own) return *own;
  return handle == nullptr ? run_options : handle->options;
}

void Session::State::count_input(const std::string& name, const Value& value) const {
  if (inputs.places.empty()) return;
  const auto found = std::ranges::find(input_names, name);
  if (found == input_names.end() || inputs.of(static_cast<std::size_t>(found - input_names.begin())) == Place::host) {
    return;
  }
  copies.count_to_device(bytes_of(value));
}

void Session::State::count_inputs(const NamedValues& values) const {
  for (const auto& [name, value] : values) count_input(name, value);
}

void Session::State::count_output(std::size_t output, const Value& value) const {
  if (outputs.of(output) != Place::host) copies.count_from_device(bytes_of(value));
}

void Session::State::count_outputs(const NamedValues& values) const {
  if (outputs.places.empty()) return;
  for (const auto& [name, value] : values) {
    const auto found = std::ranges::find(output_names, name);
    if (found != output_names.end()) count_output(static_cast<std::size_t>(found - output_names.begin()), value);
  }
}

bool Session::State::has_input_in(const std::string& name, const MemoryFacts& memory) const {
  return is_in(name, input_names, inputs, memory);
}

bool Session::State::has_output_in(const std::string& name, const MemoryFacts& memory) const {
  return is_in(name, output_names, outputs, memory);
}

std::vector<std::size_t> Session::State::all_outputs() const {
  std::vector<std::size_t> indices(output_names.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

void Session::State::stage_values(const SessionSettings& settings) {
  try {
    const std::optional<DeviceMemories> memories = staged_memories(settings, inputs, outputs);
    if (!memories) return;
    OrtAllocator* allocator = nullptr;
    Ort::ThrowOnError(Ort::GetApi().GetSharedAllocator(environment(), memories->pinned, &allocator));
    if (allocator == nullptr) return;
    for (std::size_t i = 0; i < input_names.size(); ++i) {
      declared_inputs.push_back(declared(session.GetInputTypeInfo(i)));
    }
    for (std::size_t i = 0; i < output_names.size(); ++i) {
      declared_outputs.push_back(declared(session.GetOutputTypeInfo(i)));
    }
    is_misdeclared = std::vector<std::atomic<bool>>(output_names.size());
    staging = std::make_unique<Staging>(session, memories->device, memories->pinned, allocator);
  } catch (const Ort::Exception& exception) {
    log::debug("pinned memory is not used: {}", exception.what());
  }
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

bool Session::makes_on_device(std::size_t output) const noexcept {
  return state_->outputs.of(output) != Place::host;
}

bool Session::uses_other_device() const noexcept {
  return std::ranges::any_of(std::array{&state_->inputs, &state_->outputs}, [](const ValuePlaces* values) {
    return std::ranges::find(values->places, Place::other_device) != values->places.end();
  });
}

TransferCounts Session::transfers() const noexcept {
  return state_->copies.counts();
}

bool Session::uses_pinned_memory() const noexcept {
  return state_->staging != nullptr;
}

}  // namespace gpux::ort
