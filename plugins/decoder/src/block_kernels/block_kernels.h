#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/panels.h"

/// The inner loops of a decoder, as a table for each instruction set. The result of a row does not depend on the other
/// rows, on the number of rows, or on which call computes it. All tables give bit-identical results.
namespace gpux_cpu::decoder {

/// Rows of int8, with a scale for each block of consecutive elements: element k of a row is
/// scale[k / block_size] * bytes[k]. What is beyond the row's own elements in its last block is 0.
struct BlockRows {
  std::int8_t* bytes;          ///< [count, blocks * block_size]
  float* scale;                ///< [count, blocks]; NaN if an element of the block is infinite or NaN
  std::int32_t* negative_sum;  ///< [count, blocks]: of the block's bytes, as what is added for a zero point of 1
  std::size_t count;
  std::size_t blocks, block_size;  ///< block_size: a multiple of 8

  [[nodiscard]] std::size_t stride() const noexcept { return blocks * block_size; }

  [[nodiscard]] BlockRows from(std::size_t first, std::size_t rows) const noexcept {
    return {bytes + first * stride(), scale + first * blocks, negative_sum + first * blocks, rows, blocks, block_size};
  }
};

/// out[r][c] = the sum over blocks of row_scale * weight_scale * sum(row byte * (weight - zero point)), plus bias[c].
/// The inner sum is exact; the outer one is accumulated in float32, a block after the other.
///
/// Packed weights are unsigned: 4 bits as [panel][inner / 8][32][4], where the lower half of byte i is element i and
/// the upper half element i + 4; 8 bits as [panel][inner / 4][32][4].
struct BlockProduct {
  BlockRows rows;
  const std::uint8_t* weights;
  const float* weight_scale;        ///< [panel][blocks][32]
  const std::uint8_t* zero_points;  ///< [panel][blocks][32]; null: all are 8 for 4 bits, and 128 for 8 bits
  const float* bias;                ///< [panels * 32], or null
  float* out;                       ///< output, in whole panels; column 0 is that of first_panel
  std::size_t out_stride;
  std::size_t first_panel, last_panel;  ///< the last one is left out
};

/// out[r][c] = out[r][c] * factors[r] + the sum over k of rows[r][k] * values[k][c], accumulated in this order.
struct FloatProduct {
  const float* rows;
  std::size_t row_stride, row_count;
  std::size_t inner;
  const float* values;
  const std::uint16_t* half_values = nullptr;  ///< float16 in the place of `values`; null: `values` it is
  std::size_t value_stride;
  const float* factors;  ///< null: of 0, and `out` is not read
  float* out;
  std::size_t out_stride;
  std::size_t columns;          ///< a multiple of 32
  const void* ahead = nullptr;  ///< memory that is fetched into the caches meanwhile
  std::size_t ahead_bytes = 0;
};

/// A block of the scores of one query: those of the keys [first, last), not empty; the others are masked.
struct ScoreBlock {
  float* scores;
  std::size_t first, last, count;  ///< count: a multiple of 16
  float scale;                     ///< factor of the scores
  float soft_cap;                  ///< a scaled score becomes soft_cap * tanh(score / soft_cap); 0: stays
};

struct BlockKernels {
  std::string_view name;  ///< as GPUX_DECODER_ISA calls it
  bool (*can_run)() noexcept;
  void (*product_of_4_bits)(const BlockProduct&) noexcept;
  void (*product_of_8_bits)(const BlockProduct&) noexcept;
  /// 127 steps from 0 to the largest magnitude of each block, to the nearest. Writes whole blocks, as BlockRows has
  /// them.
  void (*quantize)(const float* values, std::size_t count, std::size_t block_size, std::int8_t* bytes, float* scale,
                   std::int32_t* negative_sum) noexcept;
  void (*float_product)(const FloatProduct&) noexcept;
  /// Keys [count, head_size] into panels of 32 keys, [panel][head_size][32]. Keys beyond `count` are 0.
  void (*pack_keys)(const float* keys, std::size_t count, std::size_t head_size, float* packed) noexcept;
  /// The same with float16, which stays float16.
  void (*pack_half_keys)(const std::uint16_t* keys, std::size_t count, std::size_t head_size,
                         std::uint16_t* packed) noexcept;
  /// In place: exp(score - largest), 0 for masked ones. `largest` and `sum` are those of the blocks so far, first
  /// -infinity and 0. Returns the factor for sums that were made with the former `largest`; `sum` has it already.
  /// Blocks whose masked keys are behind the others have the same results for any `count`. A score that is not a number
  /// makes `sum` NaN.
  float (*softmax)(const ScoreBlock& block, float& largest, float& sum) noexcept;
  void (*to_half)(const float* values, std::size_t count, std::uint16_t* out) noexcept;
  void (*from_half)(const std::uint16_t* values, std::size_t count, float* out) noexcept;
};

/// The best that this processor runs, or the one that the environment variable GPUX_DECODER_ISA names. Throws
/// std::invalid_argument where it names none that this processor runs.
const BlockKernels& block_kernels();

/// All there are, the best first; `count` is set.
const BlockKernels* const* all_block_kernels(std::size_t& count) noexcept;

}  // namespace gpux_cpu::decoder
