#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gpux/error.h"
#include "gpux/runtime.h"
#include "ort/lost_device.h"
#include "ort/session.h"
#include "provider/placement.h"
#include "provider/shape_profile.h"
#include "runtime/check_inputs.h"
#include "runtime/isolation/remote_session.h"
#include "runtime/loading/load.h"
#include "runtime/steps.h"
#include "runtime/stop_handle.h"

namespace gpux {

/// A loaded model: what the sources of Runtime and its replicas share.
struct Runtime::State {
  using WorkerAbsence = runtime::isolation::WorkerAbsence;

  ModelInfo info;
  runtime::Loaded loaded;
  runtime::Steps steps;                                       // of the session of this process
  std::unique_ptr<runtime::isolation::RemoteSession> remote;  // null: the session is in this process
  std::filesystem::path profile;
  std::chrono::duration<double, std::milli> load_time{};
  std::vector<std::size_t> all_outputs;

  // Runs whose callers have left after a deadline and that have not returned yet.
  std::mutex mutex;
  std::condition_variable returned;
  std::atomic<int> abandoned_runs = 0;  // changed under the mutex

  LoadOptions options;
  provider::ActiveProfile profile_of_shapes;  // empty: any shape can be run
  std::mutex sharing_mutex;
  std::optional<RunSharing> sharing;  // once it is decided for good

  mutable std::mutex device_mutex;
  mutable std::string lost_device;                   // the error of the last run; under the mutex
  mutable std::atomic<bool> has_lost_device{false};  // whether it is not empty

  State(ModelInfo model_info, runtime::Loaded&& session, const LoadOptions& load_options);

  State(ModelInfo model_info, std::unique_ptr<runtime::isolation::RemoteSession> session,
        const LoadOptions& load_options);

  // A model before it makes other inputs of those that callers give.
  void note_compiled_shapes() {
    if (options.before.empty()) profile_of_shapes = provider::active_profile(loaded.verdict);
  }

  void note_outputs() {
    for (std::size_t i = 0; i < output_names().size(); ++i) all_outputs.push_back(i);
  }

  // Output names of the last step.
  [[nodiscard]] const std::vector<std::string>& output_names() const noexcept {
    return remote ? remote->report().output_names : steps.output_names(*loaded.session);
  }

  // A run that says so by its error has lost the device; one that succeeds has it.
  template <typename Run>
  auto noting_device(const Run& run) const {
    try {
      auto results = run();
      if (has_lost_device.load(std::memory_order_relaxed)) note_device({});
      return results;
    } catch (const Error& error) {
      if (ort::is_lost_device(error) && provider::can_lose_device(loaded.verdict)) note_device(error.message());
      throw;
    }
  }

  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                runtime::StopHandle* handle = nullptr,
                                WorkerAbsence absence = WorkerAbsence::wait) const {
    runtime::check_compiled_shapes(profile_of_shapes, inputs);
    if (remote) {
      return remote->run(inputs, outputs, handle == nullptr ? std::stop_token() : handle->in_worker(), absence);
    }
    return noting_device(
        [&] { return steps.run(*loaded.session, inputs, outputs, handle == nullptr ? nullptr : handle->here()); });
  }

  void note_device(const std::string& error) const;

  // Steps before and behind the model, and a worker, pass values on through the host.
  [[nodiscard]] bool uses_device() const noexcept { return !remote && !steps && loaded.session->uses_device(); }

  [[nodiscard]] bool keeps_on_device() const noexcept { return uses_device() && loaded.session->keeps_on_device(); }

  // `in_place` and `kept`: as of ort::Session::run_on_device(), of a session in this process without steps.
  [[nodiscard]] NamedDeviceTensors run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                                 const std::vector<std::size_t>& outputs,
                                                 runtime::StopHandle* handle = nullptr,
                                                 const NamedDeviceTensors& in_place = {},
                                                 ort::Kept kept = ort::Kept::readable) const;

  template <typename Run>
  static auto within_time(const std::shared_ptr<State>& shared, const InferOptions& options, Run run);

  [[nodiscard]] std::vector<std::size_t> output_indices(const std::vector<std::string>& names) const;

  [[nodiscard]] std::string busy_sentence() const;

  void wait_until_free(std::optional<std::chrono::steady_clock::time_point> deadline);
};

}  // namespace gpux
