#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/provider_manager.h"
#include "gpux/run_sharing.h"

namespace gpux {

/// Which texts may share a run of the model.
enum class TextBatching : std::uint8_t {
  exact,       ///< only where each embedding is bit-identical to that of the text alone
  throughput,  ///< wherever it is faster: the last digits may depend on the other texts
};

/// How strictly a request for a provider is taken: whether loading fails if the provider does not run the model.
enum class Strictness : std::uint8_t {
  off,       ///< fall back, and report it
  provider,  ///< the first requested provider must be available and hold at least one node
  nodes,     ///< also, no node may run outside the requested providers
};

/// How much ONNX Runtime optimizes the graph before running it.
enum class Optimization : std::uint8_t { disabled, basic, extended, layout, all };

/// How a decoder's keys and values are stored, where they are float32 inputs and outputs of a model that has them for
/// GroupQueryAttention alone.
enum class CachePrecision : std::uint8_t {
  as_written,  ///< in the model
  automatic,   ///< in float16 where the first provider has that operator for float16, and not for float32, or reads
               ///< both alike (gpux's decoder provider) and the weights are quantized in blocks
  float16,     ///< in half the memory
  int8,        ///< in about a quarter, with a scale for 32 or 16 elements, where the first provider is gpux's decoder
               ///< provider; what is rounded changes answers, so that it is never automatic
};

/// Whether a model runs in this process or in a worker process.
enum class Isolation : std::uint8_t {
  thread,   ///< in this process
  process,  ///< in a worker process: if native code crashes, the runs in progress fail, and the worker is restarted
};

/// Whether a worker process runs in a sandbox. The sandbox denies files other than those of the model, the providers
/// and the system's libraries, other devices, network connections, other programs and processes, and memory without
/// limit.
enum class Sandbox : std::uint8_t {
  off,
  on,      ///< as far as the kernel supports it; the verdict names what is missing
  strict,  ///< loading fails where anything is missing
};

/// Name of the level: "disabled", "basic", …
GPUX_API std::string_view to_string(Optimization level) noexcept;

/// Parses the name of an optimization level; empty for any other name.
GPUX_API std::optional<Optimization> optimization_from(std::string_view name) noexcept;

/// Parses a memory size: "512", "2GB", "1.5 GiB"; kB, MB, GB, TB count in thousands, KiB, MiB, … in 1024. Empty for any
/// other text.
GPUX_API std::optional<std::uint64_t> memory_bytes_from(std::string_view text) noexcept;

/// Options of one provider: ONNX Runtime's names, or device, memory, precision, cache_directory, threads, shapes.
struct ProviderOptions {
  std::string provider;
  std::vector<std::pair<std::string, std::string>> values;
  std::string where;  ///< the source of the options, for messages ("gpux.yml:12"); may be empty
};

/// The sizes that a free dimension of an input has in the runs of a model. Providers that compile for ranges of shapes
/// get them as options, if they are known of all free dimensions and `shapes` is not set.
struct ExpectedSize {
  std::string input;
  std::size_t dimension = 0;  ///< from 0
  std::int64_t smallest = 1;
  std::int64_t tuned = 1;    ///< the most frequent one
  std::int64_t largest = 0;  ///< 0: not known, for the reason in `from`
  std::string from;          ///< its source, for the verdict: "serving.batch_size"
};

/// A graph of the same model that is already optimized, or that contains the compiled code of providers. It is loaded
/// in place of the model if it was made for the same configuration: the providers in order and with their options
/// ("cpu" alone has none), ONNX Runtime, device, optimization and machine. These strings are only compared.
struct OptimizedGraph {
  std::filesystem::path file;
  std::string provider, runtime_version, device, optimization, machine, provider_options;

  bool operator==(const OptimizedGraph&) const = default;
};

/// A variant of a model: its weights in another precision. It is loaded in place of the model's own graph if that
/// precision is requested, the CPU provider runs the whole model, and the processor supports it.
struct PrecisionVariant {
  std::filesystem::path file;
  std::string precision;     ///< "int8"
  std::string provider;      ///< gpux's id of the provider that it was made for: "cpu"
  unsigned weight_bits = 8;  ///< 8 requires a processor that accumulates int8 products exactly; 7 runs on all
  double mean_cosine = 0;    ///< between its outputs and the model's own, when it was made
};

/// One of gpux's own providers, encoder or decoder, whose outputs for a model were compared with the CPU provider's.
/// "auto" takes it where there is no accelerator, if they agree, it runs the whole model in the model's own precision,
/// and the processor has the instructions that it is fast with.
struct ComparedProvider {
  std::string provider;    ///< gpux's id: "encoder"
  double agreement = 0;    ///< least cosine between its outputs and the CPU provider's, of all samples
  unsigned samples = 0;    ///< that were compared
  std::string difference;  ///< why the outputs were not compared; empty: they were

  bool operator==(const ComparedProvider&) const = default;
};

/// How one vector is made of the vectors of a text's tokens, as sentence-transformers defines it.
enum class Pooling : std::uint8_t {
  cls,               ///< the first token's
  max,               ///< the largest of each element
  mean,              ///< the mean
  mean_sqrt_length,  ///< the sum by the square root of the number of tokens
  weighted_mean,     ///< the mean, in which the token at position i, from 0, counts i + 1 times
  last_token,        ///< the last token's
};

/// Pooling inside the graph of a text encoder. If the model's provider has a memory of its own, the output
/// `sentence_embedding`, float32 [batch, elements], is added to the model, so that one vector per text is copied back
/// in place of one per token.
struct PooledOutput {
  std::string token_vectors;      ///< the output [batch, sequence, elements] of a floating type
  std::string attention_mask;     ///< the input [batch, sequence] that is 1 for the tokens of a text, which come first
  std::vector<Pooling> poolings;  ///< one or more; their vectors are concatenated
  bool normalizes = false;        ///< vectors of length 1

  /// Name of the output that is added.
  static constexpr const char* name = "sentence_embedding";

  bool operator==(const PooledOutput&) const = default;
};

struct LoadFacts;

/// How a model is loaded. Every field has a default.
struct LoadOptions {
  /// "auto", "fastest", "gpu", "npu", a provider, or a list "tensorrt,cuda,cpu". A single name is followed by its
  /// documented chain and the CPU. A list is used exactly as given; a trailing comma makes a single name a list.
  std::string provider = "auto";
  std::string provider_from = "default";  ///< its source, for the verdict: "--provider", "GPUX_PROVIDER", "gpux.yml"
  std::vector<ProviderLibrary> provider_libraries;  ///< plugin providers in addition to those found on the machine
  std::vector<ProviderOptions> provider_options;
  Strictness strict = Strictness::off;

  std::optional<unsigned> device;             ///< index among the provider's devices
  std::optional<std::uint64_t> memory_bytes;  ///< limit on the model's memory, on the device if the provider has one
  /// "fp32", "tf32", "fp16", "bf16", "int8", "int8-bf16". Empty: the provider's default, and with "fastest" the model's
  /// own. "any", only with "fastest": the fastest of the provider's precisions and the variants that are within the
  /// tolerance.
  std::string precision;
  double min_cosine = 0.999;              ///< the tolerance of "any": minimum mean cosine to the model's outputs
  std::filesystem::path cache_directory;  ///< for compiled engines; empty: gpux's own, where it helps; "auto": always

  std::optional<unsigned> intra_threads;  ///< inside an operator; default: one for each core that may be used
  std::optional<unsigned> inter_threads;  ///< between operators; default 1
  Optimization optimization = Optimization::all;
  std::filesystem::path profile;  ///< file for ONNX Runtime's profile, written at the end; empty: none
  /// The optimized graph is written to this file; empty: not written. If providers can store what they compiled, it is
  /// in this file, or in files next to it that this file names.
  std::filesystem::path optimized_model;
  std::vector<OptimizedGraph> optimized_graphs;       ///< candidates to load instead of the model's own graph
  std::vector<PrecisionVariant> precision_variants;   ///< candidates if another precision is requested
  std::optional<ComparedProvider> compared_provider;  ///< candidate of "auto" on machines without an accelerator
  std::vector<std::pair<std::string, std::string>> session_config;  ///< ONNX Runtime's configuration entries
  /// Libraries of operators that ONNX Runtime lacks, which export RegisterCustomOps. Their code runs in the process of
  /// the session.
  std::vector<std::filesystem::path> custom_operator_libraries;
  /// Map the weights of the model file into memory, where the providers support that, instead of reading and copying
  /// them: a faster start with less memory. The file must not be changed while the model is loaded. Models in the store
  /// are loaded so.
  bool map_weights = false;
  /// ONNX models that run before and after this one on the CPU, in the same call; empty: none. The outputs of one are
  /// connected to the inputs of the next by name. Callers pass the remaining inputs and get the outputs of the last
  /// one.
  std::filesystem::path before, after;
  /// Added to the model where its results would be copied from a device; the verdict says whether it was. Empty: no
  /// output is added. Not used with `after` and `optimized_model`.
  std::optional<PooledOutput> pooled_output;
  /// Changes the inputs and outputs: for callers who read their types from Runtime::info(). Models whose graph was
  /// optimized before (`optimized_graphs`) stay as they are. `float16` is not supported with Isolation::process, where
  /// `automatic` is `as_written`.
  CachePrecision cache_precision = CachePrecision::as_written;
  std::vector<ExpectedSize> expected_sizes;  ///< sizes of free dimensions, as far as they are known
  /// Whether requests share runs. Empty: Runtime::run_sharing() decides.
  std::optional<BatchAxis> batch_axis;
  std::string batch_axis_from = "batch_axis";  ///< its source, for messages: "--batch-axis", "gpux.yml:12:5"

  /// `process` requires the gpux program to be the calling one. `profile` and `optimized_model` are not supported with
  /// it.
  Isolation isolation = Isolation::thread;
  /// Whether a worker process that ended is replaced. If not, all later runs fail.
  bool restart_worker = true;
  /// Whether a provider library that this machine has not loaded before is first loaded in a child process. If that
  /// process crashes, the verdict has the reason, and the load continues without the provider. Requires the gpux
  /// program to be the calling one. Not for the provider "fastest", which measures in child processes anyway.
  bool preflight = false;
  /// How long such a child process may take, the compilation of the model included. One that takes longer is ended, and
  /// counts as crashed.
  std::chrono::milliseconds preflight_timeout{600'000};
  /// Anything but `off` requires isolation `process`.
  Sandbox sandbox = Sandbox::off;
  /// How long a run may continue after it was signalled to stop, before its worker process is killed and replaced.
  std::chrono::milliseconds stop_grace{5000};
  /// The longest delay before a worker that ended is started again. The first restart is immediate, the next one waits
  /// for 100 ms, and each further one twice as long. A worker that ran for a minute starts from the beginning.
  std::chrono::milliseconds max_restart_delay{10000};
  /// Set by gpux itself when it loads a model from its store or in a worker process; callers leave it null.
  std::shared_ptr<const LoadFacts> facts;
};

/// How one inference runs.
struct InferOptions {
  /// At this time the caller gets deadline_exceeded immediately. The run is signalled to stop, and the model starts no
  /// other run until it has stopped. Empty: no limit.
  std::optional<std::chrono::milliseconds> timeout;
  std::vector<std::string> outputs;  ///< only these; empty: all
  /// Another thread stops the run with it: infer() throws interrupted as soon as the current node ends.
  std::stop_token stop = {};
};

}  // namespace gpux
