#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_set>

#include "onnx/node_text.h"

namespace gpux::onnx {

/// Indices of the nodes that compute in float32 where the others have float16, because numbers beyond its range or
/// precision are ordinary in them:
/// - RMS norms, up to the division: Mul(x, x) or Pow(x, 2), ReduceMean, Add, Sqrt, Div(x, that). Squares overflow.
/// - Cos and Sin, and what only they use: angles of positions beyond 2,048 are not exact.
std::unordered_set<std::size_t> float32_nodes(std::span<const NodeText> nodes);

/// Indices of the nodes that compute with constants alone: with `constants`, and with what such nodes give. ONNX
/// Runtime computes them once, when it loads the model, if they are in float32. It has no float16 products on the CPU:
/// 1.31.1 crashes on Gemm nodes of float16 constants alone (NchwcTransformer, after
/// FuseFp16InitializerToFp32NodeTransformer), which DeBERTa's table of relative positions makes. Nodes are in the order
/// of the graph.
std::unordered_set<std::size_t> constant_nodes(std::span<const NodeText> nodes,
                                               std::unordered_set<std::string_view> constants);

}  // namespace gpux::onnx
