// An ONNX file as `gpux build --quantize` takes it apart, beside files that its external data may name. What comes of
// it is a model with the same inputs and outputs.
#include "onnx/quantize.h"

#include <filesystem>

#include "fuzzer.h"
#include "onnx/model_file.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  static const std::filesystem::path path = std::filesystem::path(GPUX_SOURCE_DIR) / "tests/models/hostile.onnx";
  const onnx::QuantizedModel made = onnx::quantize(input, path, {});
  const ModelInfo before = onnx::inspect(input, path);
  const ModelInfo after =
      must_succeed("what was written is no model", [&] { return onnx::inspect(made.head + made.graph, path); });
  require(before.signature.inputs.size() == after.signature.inputs.size(), "other inputs");
  require(before.signature.outputs.size() == after.signature.outputs.size(), "other outputs");
  require(made.quantized.empty() || after.operators != before.operators, "nothing was quantized");
}
