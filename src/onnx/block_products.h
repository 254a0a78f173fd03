#pragma once

#include <cstdint>
#include <string_view>

namespace gpux::onnx {

/// Multiplications of one token with matrices of weights in blocks (com.microsoft.MatMulNBits).
struct BlockProducts {
  std::uint64_t layers = 0;
  std::uint64_t head = 0;  ///< of matrices with a column for each token of the vocabulary

  bool operator==(const BlockProducts&) const = default;
};

/// Those of a model's graph, without its subgraphs. `vocabulary`: tokens there are. Pure. Error MalformedMessage.
BlockProducts block_products(std::string_view content, std::int64_t vocabulary);

}  // namespace gpux::onnx
