#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include "base/cancellation.h"
#include "open_inference.pb.h"
#include "server/protocols/open_inference/tensor_wire.h"

namespace gpux::server {

/// Reads a request. Tensors borrow from the message, and keep it alive, if it has their elements in memory layout.
/// `binary_outputs` of the result is set if the request has raw contents, so that the answer has them, too.
/// Errors invalid_input that name the input and what was met; those of the cancellation, which is asked for each input.
InferCall read_infer_message(const std::shared_ptr<const inference::ModelInferRequest>& request,
                             const Signature& signature, const Cancellation& cancellation = {},
                             const InferReading& reading = {});

/// A ModelInferResponse as it goes over the wire. Raw contents of some size share the outputs' memory.
struct InferMessage {
  std::vector<::grpc::Slice> slices;
  std::size_t bytes = 0;
};

/// Errors invalid_input for outputs that the protocol has no form for, resource_exhausted beyond 2 GiB.
/// Contents are typed where those of the request were, and raw where the protocol has no type for one of them.
InferMessage write_infer_message(const InferResponse& response);

/// Serializes the message as a ModelInferResponse, the answer of ModelInfer.
::grpc::ByteBuffer unary_answer(const InferMessage& message);

/// Serializes the message as a ModelStreamInferResponse, one answer of ModelStreamInfer.
::grpc::ByteBuffer stream_answer(const InferMessage& message);

/// Serializes an error as a ModelStreamInferResponse, the answer to a request that failed.
::grpc::ByteBuffer stream_failure(std::string_view error, const std::string& model_name, const std::string& id);

}  // namespace gpux::server
