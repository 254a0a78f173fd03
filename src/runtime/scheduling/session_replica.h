#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/runtime.h"
#include "isolation/loaded_identity.h"
#include "isolation/remote_session.h"
#include "isolation/value_encoding.h"
#include "onnx/stored_caches.h"
#include "ort/compute_turn.h"
#include "runtime/scheduling/scheduler.h"

namespace gpux::runtime {

class StopHandle;

/// Runs in the session of a Runtime, which several replicas may share and which must outlive them.
class SessionReplica : public Replica {
 public:
  /// `processors`: that the calling threads are bound to while they run; empty: to none. `waits_for_worker`: runs wait
  /// while the worker process of the session is being started. False where another device can run them. `turn`: that
  /// runs take to compute, with other replicas of the session; null: they do not wait for each other.
  explicit SessionReplica(const Runtime& runtime, std::size_t device = 0, std::vector<unsigned> processors = {},
                          bool waits_for_worker = true, std::shared_ptr<ort::ComputeTurn> turn = nullptr);
  ~SessionReplica() override;

  NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs) override;
  NamedValues run_trial(const NamedValues& inputs, const std::vector<std::size_t>& outputs) override;
  void stop() override;

  [[nodiscard]] bool has_lost_its_worker() const noexcept override { return has_lost_its_worker_; }

  [[nodiscard]] isolation::WorkerRun worker_run() const noexcept override { return worker_run_; }

  [[nodiscard]] std::size_t device() const noexcept override { return device_; }

  /// run() with a handle of the caller's, which stop() does not find. `places`: as of ort::Session::run(), for outputs
  /// that can_place(). Error ort::OtherShape.
  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle& handle,
                                std::span<const std::optional<Tensor>> places = {}) const;

  /// ort::Session::can_place() of a session in this process, without steps before or behind the model.
  [[nodiscard]] bool can_place(std::size_t output) const noexcept;

  /// Runtime::infer_on_device() with a handle that stop() finds, of inputs that are known to fit. `in_place`: more
  /// outputs, where makes_on_device(), each with a tensor of the device that it is written to; it may be an input.
  NamedDeviceTensors run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                   const std::vector<std::size_t>& outputs, const NamedDeviceTensors& in_place = {});

  /// run_on_device() for all outputs. They stay where the session makes them. With providers that are not plugins they
  /// can only be passed to other runs, not read.
  NamedDeviceTensors run_without_reading(const NamedValues& inputs, const NamedDeviceTensors& device_inputs);

  /// Load options that put another model on the provider and device of this one.
  [[nodiscard]] LoadOptions options_for_same_device() const;

  /// Whether run_on_device() leaves the output of this name on a device.
  [[nodiscard]] bool keeps_on_device(std::string_view output) const;

  /// Whether the session is in this process, without steps before or behind the model, and makes the output of this
  /// name on a device.
  [[nodiscard]] bool makes_on_device(std::string_view output) const;

  /// Names of all outputs, in the order of the indices that run() takes.
  [[nodiscard]] const std::vector<std::string>& output_names() const noexcept;

  /// Indices of the outputs of these names. Error invalid_input: there is no such output.
  [[nodiscard]] std::vector<std::size_t> output_indices(const std::vector<std::string>& names) const;

  /// Everything besides the model that its answers depend on: Loaded::computed_by.
  [[nodiscard]] const std::string& computed_by() const noexcept;

  /// Identity of the load: Loaded::identity.
  [[nodiscard]] const isolation::LoadedIdentity& identity() const noexcept;

  /// Threads of an operator: LoadOptions::intra_threads, or one for each core that this process may use.
  [[nodiscard]] unsigned threads() const;

  /// Inputs and outputs that are float32 in the file: Loaded::stored_caches.
  [[nodiscard]] const onnx::StoredCaches& stored_caches() const noexcept;

  /// RemoteSession::wait_for_worker() and call() with a token that stop() finds. Error usage where the session is in
  /// this process.
  [[nodiscard]] std::uint64_t wait_for_worker();
  [[nodiscard]] NamedValues call_worker(std::uint64_t worker, const NamedValues& inputs,
                                        const isolation::ExpectedValues& expected);

  /// ort::Session::run_in_place() of a model without steps before or behind it. Returns the output of that name.
  /// `all_logits`: as RunHandle::request_all_logits().
  Value run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::string_view output,
                     bool all_logits = false);

 private:
  NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, bool waits_for_worker);

  [[nodiscard]] const isolation::RemoteSession& remote() const;

  /// Runs with a handle that stop() finds.
  template <typename Run>
  auto stoppable(const Run& run);

  const Runtime& runtime_;
  std::size_t device_;
  std::vector<unsigned> processors_;
  bool waits_for_worker_;
  std::shared_ptr<ort::ComputeTurn> turn_;
  std::mutex mutex_;
  StopHandle* running_ = nullptr;
  bool has_lost_its_worker_ = false;
  isolation::WorkerRun worker_run_;
};

}  // namespace gpux::runtime
