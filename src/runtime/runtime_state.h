#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "gpux/runtime.h"
#include "provider/shape_profile.h"
#include "runtime/check_inputs.h"
#include "runtime/loading/load.h"
#include "runtime/session/model_session.h"

namespace gpux {

/// A loaded model: what the sources of Runtime and its replicas share.
struct Runtime::State {
  ModelInfo info;
  runtime::Loaded loaded;
  std::unique_ptr<runtime::ModelSession> session;
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

  State(ModelInfo model_info, runtime::Loaded&& result, std::unique_ptr<runtime::ModelSession> model_session,
        const LoadOptions& load_options);

  /// A model that a new worker process has loaded. `name`: of the model, for messages. `signature`: with its steps.
  static std::shared_ptr<State> load_in_worker(ModelInfo model_info, const std::string& name, Signature signature,
                                               const LoadOptions& load_options);

  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                runtime::StopHandle* handle = nullptr,
                                runtime::WorkerAbsence absence = runtime::WorkerAbsence::wait) const {
    runtime::check_compiled_shapes(profile_of_shapes, inputs);
    return session->run(inputs, outputs, handle, absence);
  }

  // `in_place` and `kept`: as of ModelSession::run_on_device().
  [[nodiscard]] NamedDeviceTensors run_on_device(const NamedValues& inputs, const NamedDeviceTensors& device_inputs,
                                                 const std::vector<std::size_t>& outputs,
                                                 runtime::StopHandle* handle = nullptr,
                                                 const NamedDeviceTensors& in_place = {},
                                                 ort::Kept kept = ort::Kept::readable) const {
    runtime::check_compiled_shapes(profile_of_shapes, inputs, device_inputs);
    return session->run_on_device(inputs, device_inputs, outputs, handle, in_place, kept);
  }

  template <typename Run>
  static auto within_time(const std::shared_ptr<State>& shared, const InferOptions& options, Run run);

  [[nodiscard]] std::vector<std::size_t> output_indices(const std::vector<std::string>& names) const;

  [[nodiscard]] std::string busy_sentence() const;

  void wait_until_free(std::optional<std::chrono::steady_clock::time_point> deadline);
};

}  // namespace gpux
