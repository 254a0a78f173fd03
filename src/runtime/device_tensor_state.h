#pragma once

#include <variant>

#include "gpux/device_tensor.h"
#include "ort/device_value.h"

namespace gpux::runtime {

/// State of a DeviceTensor: a value of a session of this process, or a tensor of the host.
struct DeviceTensorState {
  std::variant<Tensor, ort::DeviceValue> value;

  /// The value on the device; null if the tensor is on the host.
  static const ort::DeviceValue* device_value(const DeviceTensor& tensor) noexcept;
  static DeviceTensor wrap(std::variant<Tensor, ort::DeviceValue> value);
};

}  // namespace gpux::runtime
