#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpux/export.h"
#include "gpux/tensor.h"

namespace gpux {

namespace runtime {
struct DeviceTensorState;
}

/// A tensor in the memory of the device that runs a model, from Runtime::upload() or Runtime::infer_on_device(). The
/// elements do not change. Copies share them, and keep the model of the runtime that made it in memory.
/// Any thread may call.
class GPUX_API DeviceTensor {
 public:
  /// No tensor: of ElementType::undefined.
  DeviceTensor() = default;

  /// A tensor on the host, to be given to a run like the others. Not copied: the tensor's memory must not change.
  explicit DeviceTensor(Tensor tensor);

  /// Type of the elements.
  [[nodiscard]] ElementType type() const noexcept;

  /// Sizes of the dimensions.
  [[nodiscard]] const Shape& shape() const noexcept;

  /// Bytes of the elements; 0 for strings.
  [[nodiscard]] std::size_t byte_size() const noexcept;

  /// False: it is in host memory, because the model has this value there, or the provider's device memory cannot be
  /// used outside of a run.
  [[nodiscard]] bool is_on_device() const noexcept;

  /// A copy on the host; of one that is on the host already, the same memory. Errors resource_exhausted,
  /// provider_unavailable (the device fails), internal.
  [[nodiscard]] Tensor read() const;

 private:
  friend struct runtime::DeviceTensorState;
  std::shared_ptr<const runtime::DeviceTensorState> state_;
};

/// The name of an input or output, and its tensor on the device.
using NamedDeviceTensor = std::pair<std::string, DeviceTensor>;
/// The inputs or outputs of a model on its device, by name.
using NamedDeviceTensors = std::vector<NamedDeviceTensor>;

/// Copies of a model's inputs and outputs between the host and devices. Copies inside the graph, between nodes of two
/// providers, are not counted.
struct TransferCounts {
  std::uint64_t to_device = 0;
  std::uint64_t to_device_bytes = 0;
  std::uint64_t from_device = 0;
  std::uint64_t from_device_bytes = 0;
  std::uint64_t to_device_pinned = 0;    ///< those of `to_device` from host memory that is pinned for the device
  std::uint64_t from_device_pinned = 0;  ///< those of `from_device` to pinned host memory
};

}  // namespace gpux
