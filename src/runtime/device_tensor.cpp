#include "gpux/device_tensor.h"

#include <memory>
#include <utility>

#include "runtime/device_tensor_state.h"

namespace gpux {

namespace runtime {

const ort::DeviceValue* DeviceTensorState::device_value(const DeviceTensor& tensor) noexcept {
  if (!tensor.state_) return nullptr;
  const auto* value = std::get_if<ort::DeviceValue>(&tensor.state_->value);
  return value != nullptr && value->is_on_device() ? value : nullptr;
}

DeviceTensor DeviceTensorState::wrap(std::variant<Tensor, ort::DeviceValue> value) {
  DeviceTensor tensor;
  tensor.state_ = std::make_shared<DeviceTensorState>(DeviceTensorState{std::move(value)});
  return tensor;
}

}  // namespace runtime

DeviceTensor::DeviceTensor(Tensor tensor) : state_(runtime::DeviceTensorState::wrap(std::move(tensor)).state_) {}

ElementType DeviceTensor::type() const noexcept {
  if (!state_) return ElementType::undefined;
  return std::visit([](const auto& value) { return value.type(); }, state_->value);
}

const Shape& DeviceTensor::shape() const noexcept {
  static const Shape none;
  if (!state_) return none;
  return std::visit([](const auto& value) -> const Shape& { return value.shape(); }, state_->value);
}

std::size_t DeviceTensor::byte_size() const noexcept {
  if (!state_) return 0;
  return std::visit([](const auto& value) { return value.byte_size(); }, state_->value);
}

bool DeviceTensor::is_on_device() const noexcept {
  return runtime::DeviceTensorState::device_value(*this) != nullptr;
}

Tensor DeviceTensor::read() const {
  if (!state_) return {};
  if (const Tensor* tensor = std::get_if<Tensor>(&state_->value)) return *tensor;
  return std::get<ort::DeviceValue>(state_->value).read();
}

}  // namespace gpux
