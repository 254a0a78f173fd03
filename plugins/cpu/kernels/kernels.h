#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/panels.h"

/// The inner loops of layers, as a table for each instruction set. The result of a row does not depend on the other
/// rows, nor on which call computes which of them: each element is accumulated in the order of `inner`.
namespace gpux_cpu {

/// How many consecutive elements of `inner` are adjacent in a packed panel: [panel][inner / depth][32][depth].
constexpr std::size_t float_depth = 1, bfloat16_depth = 2, byte_depth = 4;

/// out[r][c] = sum of rows[r][k] * weights[k][c], plus bias[c], for the columns of some panels.
struct FloatProduct {
  const float* rows;
  std::size_t row_stride;  ///< elements from one row of `rows` to the next
  std::size_t row_count;   ///< may be 0
  std::size_t inner;
  const float* weights;  ///< packed
  const float* bias;     ///< as many as the panels have columns, or null
  float* out;            ///< output, in whole panels
  std::size_t out_stride;
  std::size_t first_panel, last_panel;  ///< the last one is left out
};

/// A product of bfloat16 numbers, added up in float32 two products at a time.
struct Bfloat16Product {
  const std::uint16_t* rows;
  std::size_t row_stride;  ///< even
  std::size_t row_count;
  std::size_t inner;  ///< even
  const std::uint16_t* weights;
  const float* bias;
  float* out;
  std::size_t out_stride;
  std::size_t first_panel, last_panel;
};

/// A product of bytes, exact in 32 bits: rows[r][k] stands for row_scale[r] * (byte - row_zero[r]), weights[k][c] for
/// column_scale[c] * byte.
struct ByteProduct {
  const std::uint8_t* rows;
  std::size_t row_stride;  ///< a multiple of 4
  std::size_t row_count;
  std::size_t inner;  ///< a multiple of 4
  const float* row_scale;
  const std::int32_t* row_zero;
  const std::int8_t* weights;
  const float* column_scale;
  const std::int32_t* column_sum;  ///< sum of each column's bytes
  const float* bias;
  float* out;
  std::size_t out_stride;
  std::size_t first_panel, last_panel;
};

struct Kernels {
  std::string_view name;  ///< as GPUX_ENCODER_ISA calls it
  bool (*can_run)() noexcept;
  void (*float_product)(const FloatProduct&) noexcept;
  void (*bfloat16_product)(const Bfloat16Product&) noexcept;
  void (*byte_product)(const ByteProduct&) noexcept;
  /// In place: x * (1 + erf(x / sqrt(2))) / 2.
  void (*gelu)(float* values, std::size_t count) noexcept;
  /// In place: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.
  void (*tanh_gelu)(float* values, std::size_t count) noexcept;
  /// In place: max(x, 0).
  void (*relu)(float* values, std::size_t count) noexcept;
  /// In place: x / (1 + exp(-x)).
  void (*silu)(float* values, std::size_t count) noexcept;
  /// In place: x / (1 + exp(-1.702 * x)).
  void (*quick_gelu)(float* values, std::size_t count) noexcept;
  /// In place: x * factor.
  void (*multiply)(float* values, const float* factors, std::size_t count) noexcept;
  /// In place: x * scale + added.
  void (*scale_and_add)(float* values, float scale, const float* added, std::size_t count) noexcept;
  /// In place: the larger of the two.
  void (*maximum)(float* values, const float* others, std::size_t count) noexcept;
  /// In place: exp((x - the largest) * scale), over their sum; `scale` is not negative.
  void (*softmax)(float* values, std::size_t count, float scale) noexcept;
  /// A part of a longer row. In place: exp((x - largest) * scale). `largest` and `sum` are those of the parts so far,
  /// first -infinity and 0. Returns the factor for sums that were made with the former `largest`; `sum` has it already.
  float (*softmax_part)(float* values, std::size_t count, float scale, float& largest, float& sum) noexcept;
  /// out = (x + residual - mean) / sqrt(variance + epsilon) * gamma + beta; `residual` and `beta` may be null, `out` be
  /// `x`.
  void (*layer_norm)(const float* x, const float* residual, const float* gamma, const float* beta, float epsilon,
                     std::size_t hidden_size, float* out) noexcept;
  /// out = (x + residual) / sqrt(mean of squares + epsilon) * gamma + beta; as above.
  void (*rms_norm)(const float* x, const float* residual, const float* gamma, const float* beta, float epsilon,
                   std::size_t hidden_size, float* out) noexcept;
  /// In place: pair i is (a * cosine - b * sine, b * cosine + a * sine). Its elements are i and i + pairs; interleaved:
  /// 2 * i and 2 * i + 1.
  void (*rotate)(float* values, const float* cosines, const float* sines, std::size_t pairs, bool interleaved) noexcept;
  /// In place: x[k] + of_query[b] + of_keys[b * key_stride + k], b being buckets[k] - first_bucket; either of the two
  /// may be null.
  void (*add_relative)(float* values, const std::uint32_t* buckets, std::uint32_t first_bucket, const float* of_query,
                       const float* of_keys, std::size_t key_stride, std::size_t count) noexcept;
  /// Rounds float32 to bfloat16: to the nearest, ties to even.
  void (*to_bfloat16)(const float* values, std::size_t count, std::uint16_t* out) noexcept;
  /// 255 steps from the least to the largest, 0 among them; a row of zeros has the scale 1.
  void (*to_bytes)(const float* values, std::size_t count, std::uint8_t* out, float& scale,
                   std::int32_t& zero) noexcept;
};

/// The best that this processor runs, or the one that the environment variable GPUX_ENCODER_ISA names. Throws
/// std::invalid_argument where it names none that this processor runs.
const Kernels& kernels();

/// All there are, the best first; `count` is set.
const Kernels* const* all_kernels(std::size_t& count) noexcept;

}  // namespace gpux_cpu
