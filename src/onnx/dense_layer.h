#pragma once

#include <cstdint>
#include <vector>

namespace gpux::onnx {

enum class Activation : std::uint8_t { identity, tanh, relu, gelu, sigmoid };

/// activation(W x + b), what sentence-transformers calls Dense.
struct DenseLayer {
  std::int64_t in = 0, out = 0;
  std::vector<float> weights;  ///< [out, in]
  std::vector<float> bias;     ///< [out]
  Activation activation = Activation::identity;
};

}  // namespace gpux::onnx
