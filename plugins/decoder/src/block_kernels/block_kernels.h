#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/panels.h"

/// The inner loops of a decoder, as a table for each instruction set. The result of a row does not depend on the other
/// rows, on the number of rows, or on which call computes it. All tables give bit-identical results.
namespace gpux_cpu::decoder {

/// Rows of int8 from -127 to 127, with a scale for each block of consecutive elements: element k of a row is
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

/// A number for each block of each column, [panel][blocks][32], in one of three forms.
struct BlockNumbers {
  const float* floats = nullptr;
  const std::uint16_t* halves = nullptr;  ///< float16
  const std::int8_t* steps = nullptr;     ///< the number is steps * step_size
  const float* step_size = nullptr;  ///< [panel][blocks >> step_shift][32]; blocks is a multiple of 1 << step_shift
  std::size_t step_shift = 0;

  [[nodiscard]] bool empty() const noexcept { return floats == nullptr && halves == nullptr && steps == nullptr; }
};

/// How weights are packed: as unsigned numbers, panel after panel, in steps along `inner`.
enum class WeightForm : std::uint8_t {
  nibbles,        ///< 4 bits, [inner / 8][32][4]: the lower half of byte i is element i, the upper half element i + 4
  coded_nibbles,  ///< the same, as indices of 16 values
  six_bits,       ///< [inner / 16][3][32][4]: the lower 4 bits of 16 elements, as nibbles; then bits 2 v and 2 v + 1 of
                  ///< byte i are the upper ones of element 4 v + i
  small_bytes,    ///< 8 bits of at most 127, [inner / 4][32][4]
  bytes,          ///< the same, of up to 255
};

inline constexpr std::size_t weight_forms = 5;

/// Bits that a weight takes. Pure.
constexpr std::size_t stored_bits(WeightForm form) noexcept {
  return form == WeightForm::six_bits ? 6 : form == WeightForm::nibbles || form == WeightForm::coded_nibbles ? 4 : 8;
}

/// out[r][c] = the sum over blocks of row_scale * (weight_scale * sum(row byte * (weight - zero point)) - minimum *
/// sum(row byte)), plus bias[c]. The inner sums are exact; the outer one is accumulated in float32, a block after the
/// other.
struct BlockProduct {
  BlockRows rows;
  WeightForm form = WeightForm::nibbles;
  const std::uint8_t* weights = nullptr;
  const std::uint8_t* coded_values = nullptr;  ///< of coded_nibbles: 16
  BlockNumbers weight_scale = {};
  BlockNumbers minimums = {};                 ///< empty: of 0
  const std::uint8_t* zero_points = nullptr;  ///< [panel][blocks][32]; null: all are zero_point
  std::uint8_t zero_point = 0;                ///< 0 or a power of two
  const float* bias = nullptr;                ///< [panels * 32], or null
  float* out = nullptr;                       ///< output, in whole panels; column 0 is that of first_panel
  std::size_t out_stride = 0;
  std::size_t first_panel = 0, last_panel = 0;  ///< the last one is left out
};

using BlockProductFunction = void (*)(const BlockProduct&) noexcept;

/// out[r][c] = out[r][c] * factors[r] + the sum over k of rows[r][k] * values[k][c], accumulated in this order.
struct FloatProduct {
  const float* rows;
  std::size_t row_stride, row_count;
  std::size_t inner;
  const float* values;
  const std::uint16_t* half_values = nullptr;      ///< float16 in the place of `values`
  const std::uint16_t* bfloat16_values = nullptr;  ///< bfloat16 in the place of both
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
  std::array<BlockProductFunction, weight_forms> block_products;  ///< by WeightForm
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
  /// A row of codes and scales of a head, in blocks of 32 or 16 elements. What is no number becomes infinity.
  void (*to_codes)(const float* values, std::size_t head_size, std::size_t block_size, std::int8_t* row) noexcept;
  /// `count` such rows, next to each other, into rows `stride` apart.
  void (*from_codes)(const std::int8_t* rows, std::size_t count, std::size_t head_size, std::size_t block_size,
                     std::size_t stride, float* out) noexcept;

  void block_product(const BlockProduct& product) const noexcept {
    block_products[static_cast<std::size_t>(product.form)](product);
  }
};

/// The best that this processor runs, or the one that the environment variable GPUX_DECODER_ISA names. Throws
/// std::invalid_argument where it names none that this processor runs.
const BlockKernels& block_kernels();

/// All there are, the best first; `count` is set.
const BlockKernels* const* all_block_kernels(std::size_t& count) noexcept;

}  // namespace gpux_cpu::decoder
