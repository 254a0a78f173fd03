// Quantized rows and softmax for vectors of any width, with the results of row_operations.h; as block_products.h.
#include <cstddef>
#include <cstdint>

#include "block_kernels/block_kernels.h"
#include "block_kernels/row_operations.h"
#include "kernels/vectors.h"

namespace gpux_cpu::decoder {
namespace {

/// a * b + c, rounded once.
template <typename Floats>
inline Floats fused(Floats a, Floats b, Floats c) noexcept {
  asm("vfmadd213ps %2, %1, %0" : "+v"(a) : "v"(b), "v"(c));
  return a;
}

/// All lanes in one: those of the upper half to those of the lower one, and so on.
template <typename Vector, typename Operation>
inline auto folded(Vector all, const Operation& operation) noexcept {
  if constexpr (sizeof(Vector) == 64) {
    return folded(operation(__builtin_shufflevector(all, all, 0, 1, 2, 3, 4, 5, 6, 7),
                            __builtin_shufflevector(all, all, 8, 9, 10, 11, 12, 13, 14, 15)),
                  operation);
  } else if constexpr (sizeof(Vector) == 32) {
    return folded(
        operation(__builtin_shufflevector(all, all, 0, 1, 2, 3), __builtin_shufflevector(all, all, 4, 5, 6, 7)),
        operation);
  } else {
    return operation(operation(all[0], all[2]), operation(all[1], all[3]));
  }
}

struct Larger {
  template <typename Value>
  Value operator()(Value a, Value b) const noexcept {
    return a > b ? a : b;
  }
};

struct Sum {
  template <typename Value>
  Value operator()(Value a, Value b) const noexcept {
    return a + b;
  }
};

/// Of 16 lanes, in one vector or two.
template <typename Vector, std::size_t parts, typename Operation>
inline auto folded(const Vector (&all)[parts], const Operation& operation) noexcept {
  if constexpr (parts == 1) {
    return folded(all[0], operation);
  } else {
    return folded(operation(all[0], all[1]), operation);
  }
}

/// exp_of_distance() of each lane.
template <typename Floats, typename Integers>
inline Floats exp_of_distances(Floats x) noexcept {
  const Floats least = Floats{} - 87.0F, rounding = Floats{} + 12582912.0F;
  const Floats bounded = least > x ? least : x;
  const Floats shifted = fused(bounded, Floats{} + 1.44269504F, rounding), n = shifted - rounding;
  const Floats r = fused(n, Floats{} + 2.12194440e-4F, fused(n, Floats{} - 0.693359375F, bounded));
  Floats p = Floats{} + 1.9875691500e-4F;
  p = fused(p, r, Floats{} + 1.3981999507e-3F);
  p = fused(p, r, Floats{} + 8.3334519073e-3F);
  p = fused(p, r, Floats{} + 4.1665795894e-2F);
  p = fused(p, r, Floats{} + 1.6666665459e-1F);
  p = fused(p, r, Floats{} + 5.0000001201e-1F);
  p = fused(p * r, r, r + 1.0F);
  const Integers power = (__builtin_bit_cast(Integers, shifted) << 23) + 0x3F800000;
  return x < least ? Floats{} : p * __builtin_bit_cast(Floats, power);
}

template <typename Vectors>
float softmax_of(const ScoreBlock& block, float& largest, float& sum) noexcept {
  using Floats = typename Vectors::Floats;
  using Integers = typename Vectors::Integers;
  constexpr std::size_t lanes = Vectors::lanes, parts = 16 / lanes;
  constexpr float none = -__builtin_inff();
  // Scores that are capped are of few models.
  if (block.soft_cap > 0) return softmax_block(block, largest, sum);
  Integers index;
  for (std::size_t i = 0; i < lanes; ++i) index[i] = static_cast<std::int32_t>(i);
  const auto first = static_cast<std::int32_t>(block.first), last = static_cast<std::int32_t>(block.last);
  Floats maxima[parts];
  for (Floats& maximum : maxima) maximum = Floats{} + largest;
  for (std::size_t start = 0; start < block.count; start += 16) {
    const bool is_whole = start >= block.first && start + 16 <= block.last;
#pragma GCC unroll 2
    for (std::size_t part = 0; part < parts; ++part) {
      float* const scores = block.scores + start + part * lanes;
      Floats score = load<Floats>(scores) * block.scale;
      if (!is_whole) {
        const Integers at = index + static_cast<std::int32_t>(start + part * lanes);
        score = ((at < first) | (at >= last)) ? Floats{} + none : score;
      }
      __builtin_memcpy(scores, &score, sizeof score);
      maxima[part] = score > maxima[part] ? score : maxima[part];
    }
  }
  const float maximum = folded(maxima, Larger());
  // No score is a number above -infinity: differences to the largest would be none.
  if (maximum == none) {
    return softmax_block({block.scores, block.first, block.last, block.count, 1, 0}, largest, sum);
  }
  Floats totals[parts] = {};
  for (std::size_t start = 0; start < block.count; start += 16) {
#pragma GCC unroll 2
    for (std::size_t part = 0; part < parts; ++part) {
      float* const scores = block.scores + start + part * lanes;
      const Floats value = exp_of_distances<Floats, Integers>(load<Floats>(scores) - maximum);
      __builtin_memcpy(scores, &value, sizeof value);
      totals[part] += value;
    }
  }
  return updated(largest, sum, maximum, folded(totals, Sum()));
}

/// As write_steps(); `count` is a multiple of the lanes.
template <typename Vectors>
inline std::int32_t write_vector_steps(const float* values, std::size_t count, float steps,
                                       std::int8_t* bytes) noexcept {
  using Floats = typename Vectors::Floats;
  using Integers = typename Vectors::Integers;
  constexpr float rounding = 12582912.0F;
  Integers sums = {};
  for (std::size_t i = 0; i < count; i += Vectors::lanes) {
    const Floats rounded = (load<Floats>(values + i) * steps + rounding) - rounding;
    const auto step = __builtin_convertvector(rounded, Integers);
    sums += step;
    const auto narrow = __builtin_convertvector(step, typename Vectors::Bytes);
    __builtin_memcpy(bytes + i, &narrow, sizeof narrow);
  }
  return folded(sums, Sum());
}

template <typename Vectors>
inline std::int32_t largest_vector_bits(const float* values, std::size_t count) noexcept {
  using Integers = typename Vectors::Integers;
  Integers largest = {};
  for (std::size_t i = 0; i < count; i += Vectors::lanes) {
    const Integers own = load<Integers>(values + i) & 0x7FFFFFFF;
    largest = own > largest ? own : largest;
  }
  return folded(largest, Larger());
}

template <typename Vectors>
void quantize_row_of(const float* values, std::size_t count, std::size_t block_size, std::int8_t* bytes, float* scale,
                     std::int32_t* negative_sum) noexcept {
  std::size_t first = 0;
  if (block_size % Vectors::lanes == 0) {
    for (; first + block_size <= count; first += block_size, bytes += block_size) {
      const std::int32_t largest = largest_vector_bits<Vectors>(values + first, block_size);
      float steps;
      if (*scale++ = step_size(largest, steps); steps == 0) {
        __builtin_memset(bytes, 0, block_size);
        *negative_sum++ = 0;
      } else {
        *negative_sum++ = -write_vector_steps<Vectors>(values + first, block_size, steps, bytes);
      }
    }
  }
  quantize_row(values + first, count - first, block_size, bytes, scale, negative_sum);
}

}  // namespace
}  // namespace gpux_cpu::decoder
