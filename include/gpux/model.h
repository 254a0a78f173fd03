#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpux/export.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/runtime.h"
#include "gpux/tensor.h"

namespace gpux {

/// How a model is opened. A field that is left alone is decided by a GPUX_* variable, the package, the model's
/// gpux.yml, or a default, in this order.
struct ModelOptions {
  std::filesystem::path config;                ///< a gpux.yml instead of the one beside the model
  std::string provider;                        ///< as LoadOptions::provider
  std::string provider_from = "ModelOptions";  ///< its source, for the verdict
  std::optional<Strictness> strict;
  std::optional<unsigned> device;             ///< index among the provider's devices
  std::optional<std::uint64_t> memory_bytes;  ///< limit of the model's memory
  std::string precision;                      ///< as LoadOptions::precision
  std::optional<unsigned> intra_threads, inter_threads;
  std::optional<Optimization> optimization;
  std::filesystem::path cache_directory;
  std::vector<ProviderLibrary> provider_libraries;
  std::vector<ProviderOptions> provider_options;
  std::vector<std::pair<std::string, std::string>> session_config;
  std::vector<std::filesystem::path> custom_operator_libraries;  ///< as of LoadOptions
  std::optional<std::chrono::milliseconds> timeout;              ///< maximum time of a run
  /// Where the model runs; by default in this process. Worker processes are the gpux program, which is found beside the
  /// library or by the variable GPUX_PROGRAM. One that ends is replaced.
  std::optional<Isolation> isolation;
  /// Of the worker process: anything but `off` implies Isolation::process, and is then the default of pulled packages.
  std::optional<Sandbox> sandbox;
};

class Pipeline;

/// A model as `gpux run` opens it: a file, a folder, or a name in the store, with its gpux.yml, its variants and its
/// tokenizer. Movable; const calls from several threads at once.
class GPUX_API Model {
 public:
  /// `model` is the path of an ONNX file, a gpux.yml or a folder, or NAME[:TAG] or an id in the store.
  /// Errors not_found, invalid_model, invalid_config, usage; of Runtime.
  explicit Model(const std::string& model, const ModelOptions& options = {});
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  /// Name of the model: that of its gpux.yml, package or folder, or the stem of its file.
  [[nodiscard]] const std::string& name() const noexcept;
  /// Version of the model; "1.0.0" if neither gpux.yml nor the package sets one.
  [[nodiscard]] const std::string& version() const noexcept;

  /// Inputs and outputs of infer(). A model that reads texts has the input `text` (strings of [batch]) in place of its
  /// tokens.
  [[nodiscard]] const Signature& signature() const noexcept;

  /// Runs the model once: with its own inputs, or with texts, which are tokenized. Errors as of Runtime::infer().
  [[nodiscard]] NamedValues infer(const NamedValues& inputs, const InferOptions& options = {}) const;

  /// Runs each item as infer(): those with texts alone, others as Runtime::batch_infer(). `batch_limit`: maximum of
  /// rows in a run that items share; 0: runtime.batch_size of gpux.yml, else Runtime::default_batch_rows. The error of
  /// an item names it: "item 3".
  [[nodiscard]] std::vector<NamedValues> batch_infer(std::span<const NamedValues> items,
                                                     const InferOptions& options = {},
                                                     std::uint64_t batch_limit = 0) const;

  /// Where the model runs: provider, device, precision.
  [[nodiscard]] const Verdict& verdict() const noexcept;
  /// The loaded model itself.
  [[nodiscard]] const Runtime& runtime() const noexcept;

 private:
  friend class Pipeline;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux
