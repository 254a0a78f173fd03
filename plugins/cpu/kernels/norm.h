#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/shared_array.h"

namespace gpux_cpu {

enum class NormKind : std::uint8_t {
  layer_norm,  ///< (x - mean) / sqrt(variance + epsilon) * gamma + beta
  rms_norm     ///< x / sqrt(mean of squares + epsilon) * gamma + beta
};

/// Over the last axis. `beta` may be empty. Gemma's factor (1 + weight) is in gamma.
struct Norm {
  SharedArray<float> gamma, beta;
  float epsilon = 1e-12F;
  NormKind kind = NormKind::layer_norm;
};

/// out = norm(values + residual), of one row of `count` elements; `residual` may be null, `out` be `values`.
inline void normalize(const Kernels& kernels, const Norm& norm, const float* values, const float* residual,
                      std::size_t count, float* out) noexcept {
  const auto kernel = norm.kind == NormKind::layer_norm ? kernels.layer_norm : kernels.rms_norm;
  kernel(values, residual, norm.gamma.data(), norm.beta.empty() ? nullptr : norm.beta.data(), norm.epsilon, count, out);
}

}  // namespace gpux_cpu
