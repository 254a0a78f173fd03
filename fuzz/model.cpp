// An ONNX file as `gpux inspect` reads it, beside files that its external data may name; and with fused nodes.
#include <filesystem>

#include <nlohmann/json.hpp>

#include "fuzzer.h"
#include "gpux/model_inspector.h"
#include "onnx/fused_attention.h"
#include "onnx/input_flow.h"
#include "onnx/message.h"
#include "onnx/model_file.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  static const std::filesystem::path path = std::filesystem::path(GPUX_SOURCE_DIR) / "tests/models/hostile.onnx";
  const ModelInfo info = onnx::inspect(input, path);
  (void)onnx::input_flow(input, path);
  try {
    const auto fused = onnx::with_fused_attention(input);
    if (fused) (void)onnx::inspect(fused->content, path);
  } catch (const onnx::MalformedMessage&) {
  }
  const auto json = nlohmann::json::parse(ModelInspector::to_json(info));
  require(json.is_object(), "the report is no object");
  for (const SignatureEntry& entry : info.signature.inputs) require(!to_string(entry.type).empty(), "a type unsaid");
}
