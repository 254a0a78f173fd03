#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "ort/device_value_state.h"
#include "ort/session.h"
#include "ort/session_state.h"

/// Values that stay on a session's device.
namespace gpux::ort {

DeviceValue DeviceValue::State::of_host(Tensor tensor) {
  auto state = std::make_shared<State>();
  state->type = tensor.type();
  state->shape = tensor.shape();
  state->byte_size = tensor.byte_size();
  state->host = std::move(tensor);
  return DeviceValue(std::move(state));
}

DeviceValue DeviceValue::State::of_device(StagedValue&& staged, const Ort::ConstMemoryInfo& memory,
                                          const std::shared_ptr<Session::State>& session, Ort::Allocator&& allocator) {
  auto state = std::make_shared<State>();
  const auto description = staged.value.GetTensorTypeAndShapeInfo();
  state->type = from_ort(description.GetElementType());
  state->shape = description.GetShape();
  state->byte_size = (static_cast<std::size_t>(element_count(state->shape)) * bits_of(state->type) + 7) / 8;
  state->session = session;
  state->counters = &session->copies;
  state->staging = session->staging.get();
  state->memory = facts_of(memory);
  state->allocator = std::move(allocator);
  state->staged = std::move(staged);
  return DeviceValue(std::move(state));
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
    if (state_->staging != nullptr) {
      const Tensor* const source = &tensor;
      StagedValue staged = std::move(state_->staging->copy_in(std::span(&source, 1), state_->copies).front());
      if (staged.value) return DeviceValue::State::of_device(std::move(staged), state_->inputs.memories[index], state_);
    }
    Ort::Allocator allocator(state_->session, state_->inputs.memories[index]);
    std::vector<Ort::Value> from, to;
    from.push_back(wrap(tensor));
    to.push_back(
        Ort::Value::CreateTensor(allocator, tensor.shape().data(), tensor.shape().size(), ort::to_ort(tensor.type())));
    if (tensor.byte_size() != 0) {
      Ort::ThrowOnError(environment().CopyTensors(from, to, nullptr));
      state_->copies.count_to_device(tensor.byte_size());
    }
    return DeviceValue::State::of_device({.block = nullptr, .value = std::move(to.front())},
                                         state_->inputs.memories[index], state_, std::move(allocator));
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
  return state_ && state_->counters != nullptr;
}

Tensor DeviceValue::read() const {
  if (!state_) return {};
  if (!is_on_device()) return state_->host;
  if (state_->byte_size == 0) return Tensor::allocate(state_->type, state_->shape);
  try {
    const OrtValue* const from = state_->staged.value;
    if (state_->staging != nullptr) return state_->staging->copy_out(std::span(&from, 1), *state_->counters).front();
    Tensor copy = Tensor::allocate(state_->type, state_->shape);
    Ort::Value to = wrap(Value(copy));
    OrtValue* const target = to;
    Ort::ThrowOnError(Ort::GetApi().CopyTensors(environment(), &from, &target, nullptr, 1));
    state_->counters->count_from_device(state_->byte_size);
    return copy;
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

}  // namespace gpux::ort
