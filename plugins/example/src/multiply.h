#pragma once

#include <cstddef>

#include <onnxruntime_cxx_api.h>

namespace gpux_example {

/// Whether `node` is a Mul that multiply() computes rightly: float32, both shapes known and equal, or one of them a
/// scalar (a constant of rank 0, or one element beside a rank that is not smaller). Dimensions known only by name are
/// equal when their names are. Reads the graph only.
bool can_multiply(const Ort::ConstNode& node);

/// Multiplies the fused node's inputs of these positions (the same one twice for x * x) into its only output, whose
/// shape follows from the inputs' real shapes. Throws Ort::Exception where these are neither equal nor scalar, which a
/// caller brings about by feeding two sizes for one dimension name.
void multiply(OrtKernelContext* context, std::size_t left_input, std::size_t right_input);

}  // namespace gpux_example
