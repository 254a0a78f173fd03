#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/device_tensor.h"
#include "gpux/error.h"
#include "gpux/tensor.h"
#include "ort/assignment.h"
#include "ort/device_value.h"
#include "ort/message.h"

namespace gpux::ort {

class ComputeTurn;
struct StagedValue;

/// How one provider joins a session.
struct ProviderAppend {
  enum class Way : unsigned char {
    by_name,  ///< built in: SessionOptionsAppendExecutionProvider
    cuda,     ///< the bridges with calls of their own
    tensorrt,
    openvino,
    dnnl,
    cann,
    nnapi,
    acl,
    by_device,  ///< plugin: SessionOptionsAppendExecutionProvider_V2
  };
  Way way = Way::by_name;
  std::string name;                  ///< what by_name wants ("WebGPU"); elsewhere for messages
  std::vector<std::size_t> devices;  ///< by_device: ProviderDevice::index
  std::vector<std::pair<std::string, std::string>> options;
};

/// NNAPI has no options, but flags: use_fp16 1, use_nchw 2, cpu_disabled 4, cpu_only 8, where the option is "1".
std::uint32_t nnapi_flags(const std::vector<std::pair<std::string, std::string>>& options);

/// Whether a plugin's devices, provider.devices, have a memory that the host does not read and write. Only after
/// Core::open(), of a provider that is appended by_device.
bool has_own_memory(const ProviderAppend& provider);

enum class OptimizationLevel : unsigned char { disabled, basic, extended, layout, all };

struct SessionSettings {
  std::vector<ProviderAppend> providers;  ///< in order; the CPU provider is always last and not listed
  bool cpu_fallback = true;               ///< false: creation fails where a node would stay on the CPU provider
  unsigned intra_threads = 1;             ///< 0: ONNX Runtime decides, from the host's processors
  unsigned inter_threads = 1;
  bool spinning = true;  ///< false: waiting threads sleep
  OptimizationLevel optimization = OptimizationLevel::all;
  std::filesystem::path profile_prefix;                     ///< empty: no profile
  std::filesystem::path optimized_model;                    ///< where the optimized graph is written, or with
                                                            ///< providers what they compiled; empty: nowhere
  std::vector<std::pair<std::string, std::string>> config;  ///< ONNX Runtime's session configuration entries
  std::vector<std::filesystem::path> custom_operator_libraries;
  /// Files of the model that may be changed while the session lives: what ONNX Runtime has mapped of them is copied
  /// once the session is made. Of files that are not listed, it reads what they hold then.
  std::vector<std::filesystem::path> changing_files;
};

/// A provider could not be appended to the session's options.
class AppendError : public Error {
 public:
  AppendError(std::size_t provider, const std::string& message)
      : Error(ErrorCode::provider_unavailable, message), provider_(provider) {}

  /// Index into SessionSettings::providers.
  [[nodiscard]] std::size_t provider() const noexcept { return provider_; }

 private:
  std::size_t provider_;
};

/// Lets another thread stop a run. One per run at a time.
/// ONNX Runtime stops between nodes. A plugin provider that claims a model as one node can stop inside it: it gets the
/// run's name as the run option run_name_option, and the request to stop as the session's dynamic option
/// stop_run_option.
class RunHandle {
 public:
  RunHandle();
  ~RunHandle();
  RunHandle(const RunHandle&) = delete;
  RunHandle& operator=(const RunHandle&) = delete;

  static constexpr const char* run_name_option = "gpux.run";
  static constexpr const char* stop_run_option = "gpux.stop";
  /// Names of the outputs that the run's caller reads, a line each, where that is not all: what goes into the others
  /// need not be computed.
  static constexpr const char* outputs_option = "gpux.outputs";
  /// "all": the logits of a decoder are those of each token of the run, in place of the last one of each row. Other
  /// providers than gpux's own take no notice of it.
  static constexpr const char* logits_option = "gpux.logits";

  /// The run ends with Error interrupted after the node it is in, or sooner where the provider can. Thread-safe.
  void stop();

  /// logits_option for this run. Before the run.
  void request_all_logits();

  /// A run whose values are copied outside of it computes when it has a turn of `turn`, which must outlive it and the
  /// last stop(). Other runs take none. Before the run.
  void take_turns(ComputeTurn& turn) noexcept;

 private:
  friend class Session;
  struct Options;
  std::unique_ptr<Options> options_;
};

/// An output has another shape than the memory that it was to be written to.
class OtherShape : public Error {
 public:
  using Error::Error;
};

/// Which outputs a run leaves on a device.
enum class Kept : std::uint8_t {
  readable,  ///< those that DeviceValue::read() copies: of plugins
  all,       ///< also those that only runs copy to and from: DeviceValue::read() is Error internal
};

/// A loaded model in the open core. Runs may happen on several threads at once.
class Session {
 public:
  /// Errors invalid_model, AppendError, usage (a library of custom operators that cannot be used), FileChanged
  /// (storage), and what the provider's creation says (internal).
  static Session from_file(const std::filesystem::path& model, const SessionSettings& settings);
  /// The model in memory; external data is looked for in `folder`. The bytes may go when this returns.
  static Session from_memory(std::span<const std::byte> model, const std::filesystem::path& folder,
                             const SessionSettings& settings);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  [[nodiscard]] const std::vector<std::string>& input_names() const noexcept;
  [[nodiscard]] const std::vector<std::string>& output_names() const noexcept;

  /// Runs the model. `outputs`: indices into output_names(). Results are in that order. They own their memory and never
  /// refer to an input's: a graph input that is also a graph output is copied.
  /// `places`: none, or for each of the outputs a tensor whose memory it is written to, and that is its result, if it
  /// has that type and shape; empty: ONNX Runtime allocates. Only for outputs that can_place().
  /// Errors invalid_input, interrupted, resource_exhausted, internal; OtherShape (invalid_input).
  [[nodiscard]] NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                RunHandle* handle = nullptr, std::span<const std::optional<Tensor>> places = {}) const;

  /// Whether the output, an index into output_names(), is no input, and is_written_in_place() of the memory that the
  /// session makes it in.
  [[nodiscard]] bool can_place(std::size_t output) const noexcept;

  /// Runs the model and writes the outputs `in_place`, tensors by name, into their memory, which may be that of an
  /// input: what this means is up to the operator. `output`: index of the one more that is returned. Errors as of
  /// run(); invalid_input, too, where an output has another shape.
  [[nodiscard]] Value run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::size_t output,
                                   RunHandle* handle = nullptr) const;

  /// Whether any input or output is in device memory that upload() and read() copy to and from. Else what follows
  /// works, and all is on the host.
  [[nodiscard]] bool uses_device() const noexcept;
  /// Whether any output is in such memory.
  [[nodiscard]] bool keeps_on_device() const noexcept;
  /// Whether one output stays on the device: an index into output_names().
  [[nodiscard]] bool keeps_on_device(std::size_t output) const noexcept;

  /// Whether the session makes that output in memory of a device, of whatever provider.
  [[nodiscard]] bool makes_on_device(std::size_t output) const noexcept;

  /// Whether any input or output is in device memory that only runs copy to and from: that of a provider that is no
  /// plugin.
  [[nodiscard]] bool uses_other_device() const noexcept;

  /// A copy of the tensor where the session takes that input from; the tensor itself where that is the host.
  /// Errors invalid_input: no input of that name, strings for a device; resource_exhausted, provider_unavailable.
  [[nodiscard]] DeviceValue upload(const Tensor& tensor, std::string_view input) const;

  /// Runs the model on inputs of the host and others that stay where they are. The outputs, indices into
  /// output_names(), are left where the session makes them. Each is a tensor, else Error invalid_input. Errors as of
  /// run().
  /// `in_place`: more outputs, by name, each with a value of the device that it is written to, which may be that of an
  /// input: what this means is up to the operator. Error internal: the session makes that output elsewhere.
  [[nodiscard]] NamedDeviceValues run_on_device(const NamedValues& inputs, const NamedDeviceValues& device_inputs,
                                                const std::vector<std::size_t>& outputs, RunHandle* handle = nullptr,
                                                const NamedDeviceValues& in_place = {},
                                                Kept kept = Kept::readable) const;

  /// Copies of all runs, uploads and reads of this session's values so far.
  [[nodiscard]] TransferCounts transfers() const noexcept;

  /// Whether inputs and outputs are copied outside of the runs, by way of pinned memory: so that one run can copy while
  /// another computes.
  [[nodiscard]] bool uses_pinned_memory() const noexcept;

  /// Messages that ONNX Runtime and the providers logged while the session was created.
  [[nodiscard]] const SessionLog& log() const noexcept;

  /// Which provider got which node.
  [[nodiscard]] std::vector<AssignedNode> assignment() const;

  /// Stops profiling and returns the file it wrote.
  [[nodiscard]] std::filesystem::path end_profiling();

 private:
  friend class DeviceValue;
  struct State;
  class StoppableRun;
  struct BoundRun;
  [[nodiscard]] std::vector<StagedValue> run_bound(const NamedValues& inputs, const NamedDeviceValues& device_inputs,
                                                   const std::vector<std::size_t>& outputs, RunHandle* handle,
                                                   const NamedDeviceValues& in_place = {},
                                                   Kept kept = Kept::readable) const;
  [[nodiscard]] NamedValues run_staged(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                                       RunHandle* handle) const;
  explicit Session(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // shared with the values that it left on a device
};

}  // namespace gpux::ort
