// A ModelInferRequest against a signature, its types named by the first characters; what was read is answered, and the
// answer read again as a request.
#include <algorithm>
#include <memory>
#include <string>

#include <grpcpp/impl/grpc_library.h>

#include "declared.h"
#include "fuzzer.h"
#include "open_inference.pb.h"
#include "server/grpc/infer_message.h"

namespace gpux::fuzz {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

// Slices are made by functions that this sets.
const ::grpc::internal::GrpcLibraryInitializer library;

// More elements than that of made-up numbers are not worth the time.
constexpr std::size_t max_bytes = 1 << 20;

ModelInferResponse parse(const server::InferMessage& message) {
  std::string text;
  for (const ::grpc::Slice& slice : message.slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  require(text.size() == message.bytes, "a message of another size than it says");
  ModelInferResponse response;
  require(response.ParseFromString(text), "an answer that is no message");
  return response;
}

// The answer's tensors as a request's.
std::shared_ptr<ModelInferRequest> as_request(const ModelInferResponse& response) {
  auto request = std::make_shared<ModelInferRequest>();
  for (const auto& output : response.outputs()) {
    auto& input = *request->add_inputs();
    input.set_name(output.name());
    input.set_datatype(output.datatype());
    *input.mutable_shape() = output.shape();
    if (output.has_contents()) *input.mutable_contents() = output.contents();
  }
  *request->mutable_raw_input_contents() = response.raw_output_contents();
  return request;
}

}  // namespace

void read_hostile(std::string_view input) {
  Signature signature;
  for (const char* name : {"x", "t"}) signature.inputs.push_back({.name = name, .type = take_type(input)});
  signature.outputs = signature.inputs;
  auto request = std::make_shared<ModelInferRequest>();
  if (input.size() > max_bytes || !request->ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  server::InferCall call = server::read_infer_message(request, signature);
  const bool were_raw = call.binary_outputs;
  require(were_raw || request->raw_input_contents().empty(), "raw contents that were not seen");
  // A session would answer all outputs; here they are the inputs that came.
  std::erase_if(call.outputs,
                [&](const server::RequestedOutput& output) { return find(call.run.inputs, output.name) == nullptr; });
  const NamedValues values = std::move(call.run.inputs);
  const auto answer = [&] {
    return parse(server::write_infer_message(
        {.model_name = "m", .model_version = "1", .call = call, .outputs = values, .declared = {}}));
  };
  if (!call.outputs.empty()) (void)answer();
  call.outputs.clear();
  const auto again = must_succeed("what was read is answered and read again", [&] {
    return server::read_infer_message(as_request(answer()), signature).run.inputs;
  });
  require(again.size() == values.size(), "another number of tensors");
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(again[i].first == values[i].first && same(again[i].second, values[i].second), "another tensor");
  }
}

}  // namespace gpux::fuzz
