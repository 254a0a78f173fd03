#pragma once

#include <cstddef>
#include <span>
#include <unordered_set>

#include "onnx/node_text.h"

namespace gpux::onnx {

/// Indices of the nodes that compute in float32 where the others have float16, because numbers beyond its range or
/// precision are ordinary in them:
/// - RMS norms, up to the division: Mul(x, x) or Pow(x, 2), ReduceMean, Add, Sqrt, Div(x, that). Squares overflow.
/// - Cos and Sin, and what only they use: angles of positions beyond 2,048 are not exact.
std::unordered_set<std::size_t> float32_nodes(std::span<const NodeText> nodes);

}  // namespace gpux::onnx
