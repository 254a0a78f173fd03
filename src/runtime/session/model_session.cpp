#include "runtime/session/model_session.h"

#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::runtime {

bool ModelSession::can_place(std::size_t) const noexcept {
  return false;
}

NamedValues ModelSession::run_into(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                   StopHandle& handle, std::span<const std::optional<Tensor>>) const {
  return run(inputs, outputs, &handle);
}

bool ModelSession::keeps_on_device() const noexcept {
  return false;
}

bool ModelSession::keeps_on_device(std::size_t) const noexcept {
  return false;
}

bool ModelSession::makes_on_device(std::size_t) const noexcept {
  return false;
}

DeviceTensor ModelSession::upload(const Tensor& tensor, std::string_view) const {
  return DeviceTensor(tensor);
}

NamedDeviceTensors ModelSession::run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                               const std::vector<std::size_t>& outputs, StopHandle* handle,
                                               const NamedDeviceTensors&, ort::Kept) const {
  NamedValues all = inputs;
  for (const auto& [name, tensor] : device_inputs) all.emplace_back(name, tensor.read());
  NamedDeviceTensors results;
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

TransferCounts ModelSession::transfers() const noexcept {
  return {};
}

std::optional<std::string> ModelSession::lost_device() const {
  return std::nullopt;
}

std::optional<WorkerStatus> ModelSession::worker() const {
  return std::nullopt;
}

void ModelSession::limit_computing(std::size_t) const {}

std::filesystem::path ModelSession::end_profiling() {
  return {};
}

}  // namespace gpux::runtime
