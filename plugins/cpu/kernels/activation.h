#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace gpux_cpu {

enum class Activation : std::uint8_t {
  gelu,       ///< x * (1 + erf(x / sqrt(2))) / 2
  tanh_gelu,  ///< x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
  relu,
  silu,       ///< x * sigmoid(x)
  quick_gelu  ///< x * sigmoid(1.702 * x)
};

/// Applies the activation to `count` values in place.
inline void activate(const Kernels& kernels, Activation activation, float* values, std::size_t count) noexcept {
  switch (activation) {
    case Activation::gelu:
      kernels.gelu(values, count);
      return;
    case Activation::tanh_gelu:
      kernels.tanh_gelu(values, count);
      return;
    case Activation::relu:
      kernels.relu(values, count);
      return;
    case Activation::silu:
      kernels.silu(values, count);
      return;
    case Activation::quick_gelu:
      kernels.quick_gelu(values, count);
      return;
  }
}

}  // namespace gpux_cpu
