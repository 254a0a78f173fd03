#pragma once

#include <optional>

#include <onnxruntime_cxx_api.h>

#include "graph/graph.h"

namespace gpux_cpu {

/// A graph input of integers, [batch, sequence]; empty for any other.
std::optional<Input> token_input(const Ort::ConstValueInfo& info);

/// The graph without ONNX Runtime's types. It points to the constants, which stay ONNX Runtime's. `all_constant`: every
/// initializer is constant, as in a graph to be compiled.
Graph read_graph(const OrtGraph* given, bool all_constant);

}  // namespace gpux_cpu
