#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/device_tensor.h"
#include "gpux/runtime.h"
#include "gpux/tensor.h"
#include "gpux/verdict.h"
#include "isolation/remote_session.h"
#include "ort/session.h"
#include "runtime/session/stop_handle.h"

namespace gpux::runtime {

using isolation::WorkerAbsence;

/// A loaded model where it runs: in this process, or in a worker process. Outputs are named by their indices into
/// output_names(). What concerns devices has an answer everywhere: without a device, values pass through the host.
/// Calls from any thread.
class ModelSession {
 public:
  ModelSession() = default;
  virtual ~ModelSession() = default;
  ModelSession(const ModelSession&) = delete;
  ModelSession& operator=(const ModelSession&) = delete;

  /// For its StopHandle.
  [[nodiscard]] virtual RunPlaces places() const noexcept = 0;

  /// Names of the last step's outputs.
  [[nodiscard]] virtual const std::vector<std::string>& output_names() const noexcept = 0;

  /// Runs the model with its steps. `handle`: null, or of this run alone. `absence`: of the worker.
  /// Errors as of ort::Session::run() and isolation::RemoteSession::run().
  [[nodiscard]] virtual NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                        StopHandle* handle = nullptr,
                                        WorkerAbsence absence = WorkerAbsence::wait) const = 0;

  /// Whether run_into() can write that output to memory of the caller's: ort::Session::can_place().
  [[nodiscard]] virtual bool can_place(std::size_t output) const noexcept;
  /// run() with `places` as of ort::Session::run(), for outputs that can_place(). Error ort::OtherShape, too.
  [[nodiscard]] virtual NamedValues run_into(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                             StopHandle& handle, std::span<const std::optional<Tensor>> places) const;

  /// ort::Session::run_in_place(): returns that output. `all_logits`: as RunHandle::request_all_logits(). Error usage
  /// where the model does not run alone in this process.
  [[nodiscard]] virtual Value run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::size_t output,
                                           bool all_logits, StopHandle& handle) const = 0;

  /// Whether outputs, or that output, stay in memory of a device that can be read.
  [[nodiscard]] virtual bool keeps_on_device() const noexcept;
  [[nodiscard]] virtual bool keeps_on_device(std::size_t output) const noexcept;
  /// Whether the session makes that output in memory of a device, of whatever provider.
  [[nodiscard]] virtual bool makes_on_device(std::size_t output) const noexcept;

  /// The tensor where the session takes that input from.
  [[nodiscard]] virtual DeviceTensor upload(const Tensor& tensor, std::string_view input) const;

  /// `in_place`, only for outputs that makes_on_device(), and `kept`: as of ort::Session::run_on_device().
  /// Error invalid_input where an output is no tensor.
  [[nodiscard]] virtual NamedDeviceTensors run_on_device(const NamedValues& inputs,
                                                         const NamedDeviceTensors& device_inputs,
                                                         const std::vector<std::size_t>& outputs,
                                                         StopHandle* handle = nullptr,
                                                         const NamedDeviceTensors& in_place = {},
                                                         ort::Kept kept = ort::Kept::readable) const;

  [[nodiscard]] virtual bool uses_pinned_memory() const noexcept = 0;
  [[nodiscard]] virtual TransferCounts transfers() const noexcept;

  /// Runtime::placement(). `verdict`: of its load.
  [[nodiscard]] virtual std::vector<Runtime::PlacedNode> placement(const Verdict& verdict) const = 0;

  /// The models that it runs one after the other, with their names; empty: it is one model.
  [[nodiscard]] virtual std::vector<std::pair<std::string, const Runtime*>> steps() const { return {}; }

  /// Runtime::lost_device().
  [[nodiscard]] virtual std::optional<std::string> lost_device() const;

  /// Runtime::worker().
  [[nodiscard]] virtual std::optional<WorkerStatus> worker() const;

  /// The session in the worker; null where it is in this process.
  [[nodiscard]] virtual const isolation::RemoteSession* remote() const noexcept { return nullptr; }

  /// How many runs compute at the same time in a worker. Runs in this process take the turns of their StopHandle.
  virtual void limit_computing(std::size_t runs) const;

  /// Stops profiling and returns the file that ONNX Runtime wrote; only for a load with a profile.
  virtual std::filesystem::path end_profiling();
};

}  // namespace gpux::runtime
