#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/benchmark.h"
#include "gpux/device_tensor.h"
#include "gpux/export.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/run_sharing.h"
#include "gpux/tensor.h"
#include "gpux/verdict.h"

namespace gpux {

namespace runtime {
class EnsembleSession;
class SessionReplica;
class TrialMemory;
}  // namespace runtime

/// Input for the decision of Runtime::run_sharing().
struct SharingTrialOptions {
  /// The number of requests that will run. For a few requests no trial is made, as it would cost more than it saves.
  std::size_t requests = std::numeric_limits<std::size_t>::max();
  /// Sizes of free dimensions, by name or as "input.index", that are known to work. They are tried first.
  std::vector<std::vector<std::pair<std::string, std::int64_t>>> sizes;
};

/// The worker process of a model that was loaded with Isolation::process.
struct WorkerStatus {
  /// What the worker process is doing.
  enum class State : std::uint8_t {
    ready,     ///< runs the model
    starting,  ///< loads the model; runs wait for it
    waiting,   ///< is started again after a delay; until then runs fail with provider_unavailable
  };
  State state = State::starting;
  int process_id = 0;                ///< 0: there is none now
  std::uint64_t restarts = 0;        ///< workers that ended, or could not be started again
  std::uint64_t lost_runs = 0;       ///< runs that a worker had taken when it ended: they failed
  std::uint64_t repeated_runs = 0;   ///< runs that a worker had not taken when it ended: the next worker got them
  std::uint64_t resident_bytes = 0;  ///< its resident memory; 0: there is none now
  std::string last_end;              ///< why the last one ended, as a sentence; empty: none has
};

/// Name of the state: "ready", "starting", "waiting".
GPUX_API std::string_view to_string(WorkerStatus::State state) noexcept;

/// A loaded model: one session, on the providers that the verdict names. Movable.
/// infer() may be called from several threads at once.
class GPUX_API Runtime {
 public:
  /// Loads an .onnx file. Errors not_found, invalid_model, usage (an unknown provider or option),
  /// provider_unavailable (strict, or no provider of a list is available), resource_exhausted (memory limit).
  explicit Runtime(const std::filesystem::path& model, const LoadOptions& options = {});
  ~Runtime();
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;

  /// Runs the model once. Inputs with a default may be omitted. Results are in the order of the signature, or of
  /// options.outputs. They own their memory: a graph input that is also a graph output is copied, never shared.
  /// Errors invalid_input (names, types, ranks, sizes), deadline_exceeded, resource_exhausted, internal. With
  /// Isolation::process also internal if the worker process ends during the run, and provider_unavailable while it
  /// waits to be started again.
  [[nodiscard]] NamedValues infer(const NamedValues& inputs, const InferOptions& options = {}) const;

  /// infer() for models with a single input.
  [[nodiscard]] NamedValues infer(const Tensor& input, const InferOptions& options = {}) const;

  /// Copies a tensor to where the model takes that input from, so that several runs use it without a copy of each.
  /// Errors invalid_input (no input of that name, strings for a device), resource_exhausted, provider_unavailable.
  [[nodiscard]] DeviceTensor upload(const Tensor& tensor, std::string_view input) const;

  /// Runs the model as infer() does, but the outputs stay where the model makes them until they are read, or given to
  /// another run: of this model, or of another one on the same device. `device_inputs` are inputs, too; those on
  /// another device are copied by way of the host. All outputs must be tensors. Outputs are on the host for providers
  /// whose device memory only their own runs can copy (those that are not plugins), with Isolation::process, and with
  /// LoadOptions::before and after: the results are the same. Errors as of infer().
  [[nodiscard]] NamedDeviceTensors infer_on_device(const NamedValues& inputs,
                                                   const NamedDeviceTensors& device_inputs = {},
                                                   const InferOptions& options = {}) const;

  /// Whether infer_on_device() leaves any output on a device.
  [[nodiscard]] bool keeps_on_device() const noexcept;

  /// Whether inputs and outputs are copied outside of the runs, by way of host memory that is pinned for the device:
  /// one run copies while another computes.
  [[nodiscard]] bool uses_pinned_memory() const noexcept;

  /// Copies of all runs, uploads and reads so far. Zero with Isolation::process, whose worker is not asked.
  [[nodiscard]] TransferCounts transfers() const noexcept;

  /// Default maximum of rows in a run that several items share.
  static constexpr std::uint64_t default_batch_rows = 32;

  /// Runs several items, each with its own leading dimension. Results are in the same order, and are those of each item
  /// alone. If run_sharing() allows it, items whose shapes are equal beyond the leading dimension share runs of up to
  /// `batch_limit` rows (0: default_batch_rows). Otherwise, and if a shared run fails, they run one by one.
  [[nodiscard]] std::vector<NamedValues> batch_infer(std::span<const NamedValues> items,
                                                     const InferOptions& options = {},
                                                     std::uint64_t batch_limit = 0) const;

  /// Whether requests may share a run of this model. LoadOptions::batch_axis, the signature and the operators decide;
  /// otherwise a trial of limited time compares requests that ran alone and together. Its result is stored in the home
  /// folder, keyed by the model's content and what runs it. A decision does not change later; if no trial was made, a
  /// later call may make it.
  /// Error invalid_config, or usage for a flag, if batch_axis is zero and an input or output has no free first
  /// dimension.
  [[nodiscard]] RunSharing run_sharing(const SharingTrialOptions& options = {}) const;

  /// Why equal inputs may get different outputs: an operator of the model, or of a step before or behind it, that draws
  /// random numbers, or of which nothing is known, as of custom ones. Empty if none does. Reads the files of steps and
  /// variants. Errors not_found, invalid_model, if one of them has gone.
  [[nodiscard]] std::string repetition_obstacle() const;

  /// Repeats infer() on one thread and measures it.
  [[nodiscard]] BenchmarkResult benchmark(const NamedValues& inputs, const BenchmarkOptions& options = {}) const;

  /// Inputs, outputs and metadata of the model file.
  [[nodiscard]] const ModelInfo& info() const noexcept;
  /// Where the model runs: provider, device, precision.
  [[nodiscard]] const Verdict& verdict() const noexcept;
  /// The file whose weights run: the model, or its variant in another precision.
  [[nodiscard]] const std::filesystem::path& weights_file() const noexcept;
  /// The graph written to LoadOptions::optimized_model, and the configuration it was made for. Has no file if none was
  /// requested.
  [[nodiscard]] const OptimizedGraph& written_graph() const noexcept;
  /// How long loading took.
  [[nodiscard]] std::chrono::duration<double, std::milli> load_time() const noexcept;

  /// Status of the worker process; empty unless the model was loaded with Isolation::process.
  [[nodiscard]] std::optional<WorkerStatus> worker() const;

  /// The error of the last run, if it means that the provider's device can no longer be used by this process, as after
  /// an illegal memory access on a CUDA device. With Isolation::process always empty: the worker is replaced.
  [[nodiscard]] std::optional<std::string> lost_device() const;

  /// A node of the session, and the provider that runs it.
  struct PlacedNode {
    std::string provider;  ///< gpux's id
    std::string name, domain, operator_type;
  };

  /// The nodes of the session, each with the provider that runs it. Empty if the session does not report them.
  [[nodiscard]] std::vector<PlacedNode> placement() const;

  /// Ends profiling, if it was requested, and writes the file. The destructor does so otherwise.
  void finish_profile();

 private:
  friend class runtime::EnsembleSession;
  friend class runtime::SessionReplica;
  friend class runtime::TrialMemory;
  struct State;
  explicit Runtime(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Synthetic inputs for a signature. Free dimensions are 1, or the size that `sizes` has for the dimension's name or
/// "input.index". Sequences and maps have one element, optionals are empty. Values are reproducible from `seed`: floats
/// in [0, 1), integers and bools 0 or 1, strings "a".
/// Error usage if `sizes` names a dimension that no input has; invalid_input for types without synthetic values.
GPUX_API NamedValues synthetic_inputs(const Signature& signature,
                                      const std::vector<std::pair<std::string, std::int64_t>>& sizes = {},
                                      std::uint64_t seed = 0);

}  // namespace gpux
