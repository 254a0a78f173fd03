#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "project/project_file.h"
#include "runtime/scheduling/scheduler.h"
#include "server/requests/shared_regions.h"

/// Common parts of the two forms of the Open Inference Protocol, REST and gRPC: datatypes, raw tensors, requests and
/// responses of an inference.
namespace gpux::server {

/// Throws Error invalid_input with this message.
[[noreturn]] void refuse(const std::string& message);

/// A client's text as a message shows it: in quotes, short, on one line.
std::string shown(std::string_view text);

/// "FP32", "INT64", "BYTES", …; empty for types that the protocol has no name for.
std::string_view datatype_of(ElementType type) noexcept;
std::optional<ElementType> type_of_datatype(std::string_view datatype) noexcept;

/// The tensor of an input from its raw bytes: elements in row-major order and little-endian; those of
/// BYTES each after four bytes of length. Borrows if the bytes are aligned to their element and have an owner.
/// Error invalid_input that names the input.
Tensor read_binary_tensor(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, ElementType type,
                          const Shape& shape, const std::string& name);

/// A string tensor as raw BYTES.
std::string bytes_elements(const Tensor& tensor);

/// What reading a request may use besides it.
struct InferReading {
  const SharedRegions* regions = nullptr;  ///< null: shared memory is not served
  /// Takes memory for what is copied from a region, before it is; may be empty. Its error is the request's.
  std::function<void(std::uint64_t bytes)> hold;
};

/// A copy of an input that is in shared memory. Errors as of read_binary_tensor() and SharedRegion.
Tensor read_shared_tensor(const SharedRange& range, const InferReading& reading, ElementType type, const Shape& shape,
                          const std::string& name);

/// The range of shared memory that the parameters of a tensor name. `what`: "input 'x': ". Errors invalid_input.
SharedRange shared_range(const InferReading& reading, std::string_view region, std::optional<std::uint64_t> byte_size,
                         std::uint64_t offset, const std::string& what);

/// An output that a request asks for.
struct RequestedOutput {
  std::string name;
  bool binary = false;
  std::uint32_t classes = 0;  ///< classification: the best so many of the last dimension as strings; 0: the tensor
  std::optional<SharedRange> shared = {};  ///< where it is written instead of the answer
};

/// One inference request: the run, and how it is answered.
struct InferCall {
  runtime::InferRequest run;  ///< inputs, outputs and priority: 1 is the highest; 0 is the model's default
  std::string id;
  std::vector<RequestedOutput> outputs;  ///< of the run, in its order; empty: all
  bool binary_outputs = false;           ///< for outputs that do not say
  std::optional<std::chrono::microseconds> timeout;

  /// Sets priority and timeout from the protocol's parameters; 0: none.
  void set_schedule(std::uint64_t wanted_priority, std::uint64_t timeout_microseconds) noexcept;
};

/// Parameters of a request that gpux refuses by name.
inline constexpr std::array<const char*, 3> sequence_parameters{"sequence_id", "sequence_start", "sequence_end"};

/// Error invalid_input where the model has no such input, or the call has it already.
void require_input(const InferCall& call, std::string_view name, const Signature& signature);

/// Adds an output to the run. Errors as of require_input().
void add_output(InferCall& call, std::string_view name, const Signature& signature);

/// Everything that an inference response is written from.
struct InferResponse {
  std::string_view model_name, model_version;
  const InferCall& call;
  const NamedValues& outputs;
  std::span<const DeclaredValue> declared = {};  ///< the labels for classification
  std::string_view verdict = {};                 ///< RanOn::header, as the parameter `gpux_verdict`
};

struct AnsweredOutput {
  std::string name;
  Tensor tensor;  ///< of a type that datatype_of() names
  bool binary = false;
  std::optional<SharedRange> shared = {};  ///< where it has been written; byte_size: so many of it
};

/// The outputs as they are answered: those asked for, in that order, classified where that is asked, and written to
/// shared memory. Errors invalid_input for outputs that the protocol has no form for, or that are longer than their
/// place; of SharedRegion.
std::vector<AnsweredOutput> answered_outputs(const InferResponse& response);

}  // namespace gpux::server
