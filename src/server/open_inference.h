#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "model/project_file.h"
#include "server/http/message.h"
#include "server/model_repository.h"

/// The Open Inference Protocol, version 2, over REST: its JSON and its binary tensor extension, as in
/// https://github.com/kserve/open-inference-protocol and Triton's extension_binary_data.md and
/// extension_classification.md.
namespace gpux::server {

/// "FP32", "INT64", "BYTES", …; empty for types that the protocol has no name for.
std::string_view datatype_of(ElementType type) noexcept;
std::optional<ElementType> type_of_datatype(std::string_view datatype) noexcept;

/// What the server does beyond the protocol's core, by the names that clients look for.
inline constexpr std::array<std::string_view, 5> extensions{"binary_tensor_data", "classification", "model_repository",
                                                            "schedule_policy", "statistics"};

/// "READY", "UNAVAILABLE", "LOADING", as the model repository extension has it.
std::string_view repository_state(ModelState state) noexcept;

/// The protocol's metadata of a value: {"name", "datatype", "shape"}; a free dimension is -1.
void append_metadata_tensor(std::string& out, const SignatureEntry& entry);

/// One entry of the statistics extension's "model_stats".
void append_statistics(std::string& out, ServedModel& model);

/// Milliseconds since 1970 of a time on the steady clock in nanoseconds; 0 for 0, which stands for never.
std::int64_t epoch_milliseconds(std::int64_t steady_nanoseconds);

/// An output that a request asks for.
struct RequestedOutput {
  std::string name;
  bool binary = false;
  std::uint32_t classes = 0;  ///< classification: the best so many of the last dimension as strings; 0: the tensor
};

/// What one call of infer asks.
struct InferCall {
  std::string id;
  NamedValues inputs;
  std::vector<RequestedOutput> outputs;  ///< empty: all
  bool binary_outputs = false;           ///< for outputs that do not say
  int priority = 0;                      ///< 1 is the highest; 0 is the model's default
  std::optional<std::chrono::microseconds> timeout;
};

/// Reads a request's body. `json_bytes` is the value of Inference-Header-Content-Length where that was sent: tensors
/// follow the JSON, and 0 means that the whole body is the one input's only batch item. Binary tensors borrow from the
/// body where they lie aligned to their element.
/// Errors invalid_input that name the input and what was met.
InferCall read_infer_call(const http::Piece& body, std::optional<std::uint64_t> json_bytes, const Signature& signature);

/// What the answer is made of.
struct InferResponse {
  std::string_view model_name, model_version;
  const InferCall& call;
  const NamedValues& outputs;
  const ProjectFile* project = nullptr;  ///< declares the labels for classification; may be null
};

/// Writes the answer: JSON, followed by the binary tensors where some are asked for, which share the outputs' memory.
/// Error invalid_input for outputs that the protocol has no form for.
http::Response write_infer_response(const InferResponse& response);

}  // namespace gpux::server
