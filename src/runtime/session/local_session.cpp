#include "runtime/session/local_session.h"

#include <utility>

#include "gpux/error.h"
#include "ort/lost_device.h"
#include "provider/placement.h"
#include "runtime/device_tensor_state.h"

namespace gpux::runtime {
namespace {

ort::RunHandle* here(StopHandle* handle) {
  return handle == nullptr ? nullptr : handle->here();
}

}  // namespace

LocalSession::LocalSession(std::unique_ptr<ort::Session> session, Steps steps, const Verdict& verdict)
    : session_(std::move(session)), steps_(std::move(steps)), can_lose_device_(provider::can_lose_device(verdict)) {}

template <typename Run>
auto LocalSession::noting_device(const Run& run) const {
  try {
    auto results = run();
    if (has_lost_device_.load(std::memory_order_relaxed)) note_device({});
    return results;
  } catch (const Error& error) {
    if (can_lose_device_ && ort::is_lost_device(error)) note_device(error.message());
    throw;
  }
}

void LocalSession::note_device(const std::string& error) const {
  const std::lock_guard lock(mutex_);
  lost_device_ = error;
  has_lost_device_ = !error.empty();
}

std::optional<std::string> LocalSession::lost_device() const {
  if (!has_lost_device_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return lost_device_.empty() ? std::nullopt : std::optional(lost_device_);
}

const std::vector<std::string>& LocalSession::output_names() const noexcept {
  return steps_.output_names(*session_);
}

NamedValues LocalSession::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle* handle,
                              WorkerAbsence) const {
  return noting_device([&] { return steps_.run(*session_, inputs, outputs, here(handle)); });
}

bool LocalSession::can_place(std::size_t output) const noexcept {
  return !steps_ && session_->can_place(output);
}

NamedValues LocalSession::run_into(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                   StopHandle& handle, std::span<const std::optional<Tensor>> places) const {
  return noting_device([&] { return session_->run(inputs, outputs, handle.here(), places); });
}

Value LocalSession::run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::size_t output,
                                 bool all_logits, StopHandle& handle) const {
  if (steps_) {
    throw Error(ErrorCode::usage,
                "models before or after it are not supported for a model that updates caches in place");
  }
  if (all_logits) handle.here()->request_all_logits();
  return session_->run_in_place(inputs, in_place, output, handle.here());
}

bool LocalSession::keeps_on_device() const noexcept {
  return uses_device() && session_->keeps_on_device();
}

bool LocalSession::keeps_on_device(std::size_t output) const noexcept {
  return keeps_on_device() && session_->keeps_on_device(output);
}

bool LocalSession::makes_on_device(std::size_t output) const noexcept {
  return !steps_ && session_->makes_on_device(output);
}

DeviceTensor LocalSession::upload(const Tensor& tensor, std::string_view input) const {
  if (!uses_device()) return DeviceTensor(tensor);
  return DeviceTensorState::wrap(session_->upload(tensor, input));
}

NamedDeviceTensors LocalSession::run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                               const std::vector<std::size_t>& outputs, StopHandle* handle,
                                               const NamedDeviceTensors& in_place, ort::Kept kept) const {
  const bool is_direct = session_->uses_device() || kept == ort::Kept::all || !in_place.empty();
  if (steps_ || !is_direct) {
    return ModelSession::run_on_device(inputs, device_inputs, outputs, handle, in_place, kept);
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
  ort::NamedDeviceValues values =
      noting_device([&] { return session_->run_on_device(of_host, of_device, outputs, here(handle), written, kept); });
  NamedDeviceTensors results;
  for (auto& [name, value] : values) results.emplace_back(std::move(name), DeviceTensorState::wrap(std::move(value)));
  return results;
}

bool LocalSession::uses_pinned_memory() const noexcept {
  return session_->uses_pinned_memory();
}

TransferCounts LocalSession::transfers() const noexcept {
  return session_->transfers();
}

std::vector<Runtime::PlacedNode> LocalSession::placement(const Verdict& verdict) const {
  if (!verdict.placement_known) return {};
  std::vector<Runtime::PlacedNode> nodes;
  for (ort::AssignedNode& node : session_->assignment()) {
    std::string id = node.provider;
    for (const ProviderAttempt& attempt : verdict.tried) {
      if (attempt.ort_name == node.provider) id = attempt.id;
    }
    nodes.push_back({std::move(id), std::move(node.name), std::move(node.domain), std::move(node.operator_type)});
  }
  return nodes;
}

std::filesystem::path LocalSession::end_profiling() {
  return session_->end_profiling();
}

}  // namespace gpux::runtime
