#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpux/model_info.h"
#include "server/http/message.h"
#include "server/models/model_repository.h"
#include "server/protocols/open_inference/tensor_wire.h"

/// The Open Inference Protocol, version 2, over REST: its JSON and its binary tensor extension, as in
/// https://github.com/kserve/open-inference-protocol and Triton's extension_binary_data.md and
/// extension_classification.md.
namespace gpux::server {

/// Extensions of the protocol that the server supports, by the names that clients look for. With shared memory one
/// more.
inline constexpr std::array<std::string_view, 5> extensions{"binary_tensor_data", "classification", "model_repository",
                                                            "schedule_policy", "statistics"};

inline constexpr std::string_view shared_memory_extension = "system_shared_memory";

/// The protocol's metadata of a value: {"name", "datatype", "shape"}; a free dimension is -1.
void append_metadata_tensor(std::string& out, const SignatureEntry& entry);

/// One entry of the statistics extension's "model_stats".
void append_statistics(std::string& out, const ModelDescription& model);

/// The model's configuration as Triton's model configuration extension has it.
void append_model_config(std::string& out, const ModelDescription& model);

/// Milliseconds since 1970 of a time on the steady clock in nanoseconds; 0 for 0, which stands for never.
std::int64_t epoch_milliseconds(std::int64_t steady_nanoseconds);

/// Reads a request's body. `json_bytes` is the value of Inference-Header-Content-Length where that was sent: tensors
/// follow the JSON, and 0 means that the whole body is the one input's only batch item. Binary tensors borrow from the
/// body where they lie aligned to their element.
/// Errors invalid_input that name the input and what was met.
InferCall read_infer_call(const http::Piece& body, std::optional<std::uint64_t> json_bytes, const Signature& signature,
                          const InferReading& reading = {});

/// Writes the answer: JSON, followed by the binary tensors where some are asked for, which share the outputs' memory.
/// Error invalid_input for outputs that the protocol has no form for.
http::Response write_infer_response(const InferResponse& response);

}  // namespace gpux::server
