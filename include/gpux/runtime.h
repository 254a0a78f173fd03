#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpux/benchmark.h"
#include "gpux/export.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/run_sharing.h"
#include "gpux/tensor.h"
#include "gpux/verdict.h"

namespace gpux {

namespace runtime {
class SessionReplica;
}

/// How Runtime::run_sharing() may find out whether requests can share runs.
struct SharingTrialOptions {
  /// How many requests are about to run. For few of them no trial is made: it would take more runs than it saves.
  std::size_t requests = std::numeric_limits<std::size_t>::max();
  /// Sizes of free dimensions, by name or as "input.index", with which the model is known to run. Tried first.
  std::vector<std::vector<std::pair<std::string, std::int64_t>>> sizes;
};

/// A loaded model: one session, on the providers that the verdict names. Movable.
/// infer() may be called from several threads at once.
class GPUX_API Runtime {
 public:
  /// Loads an .onnx file. Errors not_found, invalid_model, usage (an unknown provider or option),
  /// provider_unavailable (strict, or nothing of a list is there), resource_exhausted (memory limit).
  explicit Runtime(const std::filesystem::path& model, const LoadOptions& options = {});
  ~Runtime();
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;

  /// Runs the model once. Inputs with a default may be omitted. Results are in the order of the signature, or of
  /// options.outputs. They own their memory: a graph input that is also a graph output is copied, never shared.
  /// Errors invalid_input (names, types, ranks, sizes), deadline_exceeded, resource_exhausted, internal.
  [[nodiscard]] NamedValues infer(const NamedValues& inputs, const InferOptions& options = {}) const;

  /// For models with a single input.
  [[nodiscard]] NamedValues infer(const Tensor& input, const InferOptions& options = {}) const;

  /// Rows of a run that several items share, where nothing else is said.
  static constexpr std::uint64_t default_batch_rows = 32;

  /// Each item has a leading dimension of its own; results come in the same order and are those of each item alone.
  /// Where run_sharing() permits it, items whose shapes agree beyond the leading dimension share runs of up to
  /// `batch_limit` rows (0: default_batch_rows); else, and where a shared run fails, they run one by one.
  [[nodiscard]] std::vector<NamedValues> batch_infer(std::span<const NamedValues> items,
                                                     const InferOptions& options = {},
                                                     std::uint64_t batch_limit = 0) const;

  /// Whether requests may share a run of this model: by LoadOptions::batch_axis, the signature and the operators; else
  /// by a trial that compares answers of requests that ran alone and together, bounded in time. Its result is kept in
  /// the home folder, by the model's content and what runs it. What was decided once stays; where no trial was made,
  /// a later call may make it.
  /// Error invalid_config, or usage for a flag, where batch_axis is zero and an input or output has no free first
  /// dimension.
  [[nodiscard]] RunSharing run_sharing(const SharingTrialOptions& options = {}) const;

  /// Repeats infer() on one thread and measures it.
  [[nodiscard]] BenchmarkResult benchmark(const NamedValues& inputs, const BenchmarkOptions& options = {}) const;

  [[nodiscard]] const ModelInfo& info() const noexcept;
  [[nodiscard]] const Verdict& verdict() const noexcept;
  /// The file whose weights run: the model's, or that of its variant in another precision.
  [[nodiscard]] const std::filesystem::path& weights_file() const noexcept;
  /// What was written to LoadOptions::optimized_model, and what it was made for. Without a file where none was asked
  /// for.
  [[nodiscard]] const OptimizedGraph& written_graph() const noexcept;
  [[nodiscard]] std::chrono::duration<double, std::milli> load_time() const noexcept;

  /// Which node runs where: one entry a node, as the session reports it.
  struct PlacedNode {
    std::string provider;  ///< gpux's id
    std::string name, domain, operator_type;
  };

  [[nodiscard]] std::vector<PlacedNode> placement() const;

  /// Ends profiling, where it was asked for, and writes the file. Called by the destructor otherwise.
  void finish_profile();

 private:
  friend class runtime::SessionReplica;
  struct State;
  std::shared_ptr<State> state_;
};

/// Synthetic inputs for a signature: free dimensions are 1, or what `sizes` says by dimension name or "input.index";
/// sequences and maps have one element, optionals are empty; values are reproducible from `seed`: floats in [0, 1),
/// integers and bools 0 or 1, strings "a".
/// Error usage where `sizes` names a dimension that no input has; invalid_input for types that cannot be made up.
GPUX_API NamedValues synthetic_inputs(const Signature& signature,
                                      const std::vector<std::pair<std::string, std::int64_t>>& sizes = {},
                                      std::uint64_t seed = 0);

}  // namespace gpux
