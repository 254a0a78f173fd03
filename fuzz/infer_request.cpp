// Calls of infer: the JSON, the header that says how long it is, and the binary tensors behind it.
#include <cstring>

#include "fuzzer.h"
#include "server/protocols/open_inference/messages.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  // The first byte chooses the model, two more what Inference-Header-Content-Length says; 0xffff: it is not sent.
  if (input.size() < 3) return;
  Signature signature;
  const auto entry = [](std::string name, ElementType type, std::vector<Dimension> dimensions) {
    SignatureEntry made;
    made.name = std::move(name);
    made.type = {.kind = ValueKind::tensor, .element = type, .dimensions = std::move(dimensions), .inner = {}};
    return made;
  };
  const ElementType types[] = {ElementType::float32, ElementType::string, ElementType::boolean,
                               ElementType::float16, ElementType::int64,  ElementType::uint8};
  const auto choice = static_cast<unsigned char>(input[0]);
  signature.inputs.push_back(entry("x", types[choice % 6], {{.size = {}, .name = "batch"}, {.size = 3, .name = {}}}));
  if (choice >= 128) signature.inputs.push_back(entry("z", types[choice / 6 % 6], {{.size = 2, .name = {}}}));
  signature.outputs.push_back(entry("y", ElementType::float32, {{.size = {}, .name = "batch"}}));
  std::uint16_t length = 0;
  std::memcpy(&length, input.data() + 1, sizeof length);
  const std::string_view body = input.substr(3);
  const std::optional<std::uint64_t> json_bytes =
      length == 0xffff ? std::nullopt : std::optional<std::uint64_t>(length);
  const std::size_t aligned_at = json_bytes && *json_bytes <= body.size() ? static_cast<std::size_t>(*json_bytes) : 0;
  const server::InferCall call = server::read_infer_call(http::make_body(body, aligned_at), json_bytes, signature);
  for (const auto& [name, value] : call.run.inputs) {
    require(value.tensor() != nullptr, "an input that is no tensor");
    require(value.tensor()->element_count() >= 0, "a size below nothing");
  }
  const NamedValues outputs{{"y", Value(Tensor::of<float>({2}, std::vector<float>{1, 2}))}};
  for (const server::RequestedOutput& output : call.outputs) require(output.name == "y", "an output that is not there");
  (void)must_succeed("an answer", [&] {
    return server::write_infer_response(
        {.model_name = "m", .model_version = "1", .call = call, .outputs = outputs, .declared = {}});
  });
}
