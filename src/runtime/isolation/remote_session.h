#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "gpux/options.h"
#include "gpux/runtime.h"
#include "gpux/tensor.h"
#include "runtime/isolation/load_message.h"

namespace gpux::runtime::isolation {

/// The worker ended during a run, which may be the run's fault: it is not repeated.
class WorkerEnded : public Error {
 public:
  using Error::Error;
};

/// A model that is loaded in a worker process, which is started again whenever it ends. All calls from any thread.
class RemoteSession {
 public:
  /// Starts the worker and waits until it has loaded the model. `name`: of the model, for messages.
  /// Errors as of Runtime; usage for options that are not supported in a worker, or where there is no program to start;
  /// internal where the worker ends meanwhile.
  RemoteSession(const std::filesystem::path& model, const std::string& name, const LoadOptions& options);
  /// Ends the worker. No run may be in progress.
  ~RemoteSession();
  RemoteSession(const RemoteSession&) = delete;
  RemoteSession& operator=(const RemoteSession&) = delete;

  /// Of the first worker; each later one has to agree with it.
  [[nodiscard]] const LoadReport& report() const noexcept;

  /// Runs the model. `outputs`: indices into report().output_names. Runs of several threads are independent.
  /// After a stop the run ends with Error interrupted when its node ends; if it has not ended within
  /// LoadOptions::stop_grace, its worker is killed and replaced.
  /// While the worker is being started, this waits for it, or for a stop.
  /// Errors as of ort::Session::run(); WorkerEnded (internal); provider_unavailable while a restart is delayed.
  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                const std::stop_token& stop) const;

  [[nodiscard]] WorkerStatus status() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::runtime::isolation
