// A .pb file of a type that the first two characters say. What is written of it reads back the same.
#include <string>

#include "declared.h"
#include "fuzzer.h"
#include "onnx/tensor_file.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const ValueType type = take_type(input);
  const Value value = onnx::read_value(input, type, "input_0.pb");
  const std::string file =
      type.kind == ValueKind::optional ? onnx::write_optional(value, "x") : onnx::write_value(value, "x");
  const Value again =
      must_succeed("reading what was written", [&] { return onnx::read_value(file, type, "input_0.pb"); });
  require(same(value, again), "the .pb written reads back as another value");
}
