#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "ort/session.h"
#include "runtime/session/model_session.h"
#include "runtime/session/steps.h"

namespace gpux::runtime {

/// A model in this process, with the models before and behind it. With such steps, values pass through the host.
class LocalSession : public ModelSession {
 public:
  /// `verdict`: of the load. With a provider whose device can be lost, runs note whether it is.
  LocalSession(std::unique_ptr<ort::Session> session, Steps steps, const Verdict& verdict);

  [[nodiscard]] RunPlaces places() const noexcept override { return RunPlaces::here; }

  [[nodiscard]] const std::vector<std::string>& output_names() const noexcept override;
  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle* handle,
                                WorkerAbsence absence) const override;
  [[nodiscard]] bool can_place(std::size_t output) const noexcept override;
  [[nodiscard]] NamedValues run_into(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                     StopHandle& handle, std::span<const std::optional<Tensor>> places) const override;
  [[nodiscard]] Value run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::size_t output,
                                   bool all_logits, StopHandle& handle) const override;
  [[nodiscard]] bool keeps_on_device() const noexcept override;
  [[nodiscard]] bool keeps_on_device(std::size_t output) const noexcept override;
  [[nodiscard]] bool makes_on_device(std::size_t output) const noexcept override;
  [[nodiscard]] DeviceTensor upload(const Tensor& tensor, std::string_view input) const override;
  [[nodiscard]] NamedDeviceTensors run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                                 const std::vector<std::size_t>& outputs, StopHandle* handle,
                                                 const NamedDeviceTensors& in_place, ort::Kept kept) const override;
  [[nodiscard]] bool uses_pinned_memory() const noexcept override;
  [[nodiscard]] TransferCounts transfers() const noexcept override;
  [[nodiscard]] std::vector<Runtime::PlacedNode> placement(const Verdict& verdict) const override;
  [[nodiscard]] std::optional<std::string> lost_device() const override;
  std::filesystem::path end_profiling() override;

 private:
  [[nodiscard]] bool uses_device() const noexcept { return !steps_ && session_->uses_device(); }

  // A run that says so by its error has lost the device; one that succeeds has it.
  template <typename Run>
  auto noting_device(const Run& run) const;
  void note_device(const std::string& error) const;

  std::unique_ptr<ort::Session> session_;
  Steps steps_;
  bool can_lose_device_;
  mutable std::mutex mutex_;
  mutable std::string lost_device_;                   // the error of the last run; under the mutex
  mutable std::atomic<bool> has_lost_device_{false};  // whether it is not empty
};

}  // namespace gpux::runtime
