#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/provider_manager.h"
#include "gpux/run_sharing.h"

namespace gpux {

/// What happens where the requested provider does not hold the model.
enum class Strictness : std::uint8_t {
  off,       ///< fall back, and say so
  provider,  ///< the first requested provider must be available and hold at least one node
  nodes,     ///< besides, no node may run outside the requested providers
};

/// How hard ONNX Runtime rewrites the graph before running it.
enum class Optimization : std::uint8_t { disabled, basic, extended, layout, all };

/// "disabled", "basic", …
GPUX_API std::string_view to_string(Optimization level) noexcept;

/// Reads those names; empty where the name is none of them.
GPUX_API std::optional<Optimization> optimization_from(std::string_view name) noexcept;

/// Options of one provider: ONNX Runtime's names, or device, memory, precision, cache_directory, threads.
struct ProviderOptions {
  std::string provider;
  std::vector<std::pair<std::string, std::string>> values;
  std::string where;  ///< where they were given, for messages ("gpux.yml:12"); may be empty
};

/// A graph of the same model, optimized ahead, or with what providers have compiled in it. It is loaded instead where
/// all that it was made for agrees with what is chosen: the providers, in order and with their options ("cpu" alone has
/// none), that ONNX Runtime, device, optimization and machine. The texts are compared, never read.
struct OptimizedGraph {
  std::filesystem::path file;
  std::string provider, runtime_version, device, optimization, machine, provider_options;

  bool operator==(const OptimizedGraph&) const = default;
};

/// The same model with weights of another precision. It is loaded instead of the model's own graph where that precision
/// is asked for, the CPU alone runs it, and the processor can.
struct PrecisionVariant {
  std::filesystem::path file;
  std::string precision;     ///< "int8"
  std::string provider;      ///< gpux's id of the provider that it was made for: "cpu"
  unsigned weight_bits = 8;  ///< 8 need a processor that adds products of bytes exactly; 7 run on every one
  double mean_cosine = 0;    ///< between its answers and the model's own, when it was made
};

/// How a model is loaded. Every field has a default and can be left alone.
struct LoadOptions {
  /// "auto", "fastest", "gpu", "npu", a provider, or a list "tensorrt,cuda,cpu". A single name goes on with its
  /// documented chain and the CPU; a list is exactly itself, and a trailing comma makes a single name a list.
  std::string provider = "auto";
  std::string provider_from = "default";  ///< who said so, for the verdict: "--provider", "GPUX_PROVIDER", "gpux.yml"
  std::vector<ProviderLibrary> provider_libraries;  ///< plugin providers beyond those found on the machine
  std::vector<ProviderOptions> provider_options;
  Strictness strict = Strictness::off;

  std::optional<unsigned> device;             ///< index among the provider's devices
  std::optional<std::uint64_t> memory_bytes;  ///< limit on the model's memory: on the device where the provider has one
  /// "fp32", "fp16", "bf16", "int8", "int8-bf16"; empty: the provider's own, and with "fastest" the model's; "any": the
  /// quickest, of a provider's own precisions and of variants near enough to the model; "fastest" only.
  std::string precision;
  double min_cosine = 0.999;              ///< what a precision must have to be near enough for "any"
  std::filesystem::path cache_directory;  ///< for compiled engines; empty: none

  std::optional<unsigned> intra_threads;  ///< inside an operator; default: the processors this process may use
  std::optional<unsigned> inter_threads;  ///< between operators; default 1
  Optimization optimization = Optimization::all;
  std::filesystem::path profile;  ///< ONNX Runtime's profile goes to this file at the end; empty: none
  /// The optimized graph is written here; empty: nowhere. What providers compiled, where they can keep that, lies in it
  /// or in files beside it, of which it knows the names.
  std::filesystem::path optimized_model;
  std::vector<OptimizedGraph> optimized_graphs;      ///< candidates to load instead of the model's own graph
  std::vector<PrecisionVariant> precision_variants;  ///< candidates where another precision is asked for
  std::vector<std::pair<std::string, std::string>> session_config;  ///< ONNX Runtime's configuration entries
  /// ONNX models that run before and behind this one on the CPU, in the same call; empty: none. What one gives goes on
  /// to the next by name, and callers give and get what the whole takes and the last one gives.
  std::filesystem::path before, after;
  /// Decides whether requests share runs. Empty: Runtime::run_sharing() finds out.
  std::optional<BatchAxis> batch_axis;
  std::string batch_axis_from = "batch_axis";  ///< the source of it, for messages: "--batch-axis", "gpux.yml:12:5"
};

/// How one inference runs.
struct InferOptions {
  /// Past it the caller gets deadline_exceeded at once. The run is told to stop, and the model takes no other until it
  /// has. Empty: as long as it takes.
  std::optional<std::chrono::milliseconds> timeout;
  std::vector<std::string> outputs;  ///< only these; empty: all
};

}  // namespace gpux
