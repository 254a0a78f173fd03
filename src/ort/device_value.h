#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::ort {

/// A tensor where a session has it: in the memory of its device, or of the host. It keeps the session that made it.
/// Copies share their data, which does not change. May be used by several threads at once.
class DeviceValue {
 public:
  /// Nothing: without a type.
  DeviceValue() = default;

  [[nodiscard]] ElementType type() const noexcept;
  [[nodiscard]] const Shape& shape() const noexcept;
  [[nodiscard]] std::size_t byte_size() const noexcept;
  [[nodiscard]] bool is_on_device() const noexcept;

  /// A copy on the host, or the same memory where it is there. Errors as of Session::run().
  [[nodiscard]] Tensor read() const;

 private:
  friend class Session;
  struct State;

  explicit DeviceValue(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

using NamedDeviceValues = std::vector<std::pair<std::string, DeviceValue>>;

}  // namespace gpux::ort
