// Products of rows and values in float32, for vectors of any width; as block_products.h.
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "block_kernels/block_kernels.h"
#include "block_kernels/widened.h"
#include "kernels/vectors.h"

namespace gpux_cpu::decoder {
namespace {

template <typename Value>
inline const Value* values_of(const FloatProduct& product) noexcept {
  if constexpr (std::is_same_v<Value, float>) {
    return product.values;
  } else if constexpr (std::is_same_v<Value, Bfloat16>) {
    return reinterpret_cast<const Bfloat16*>(product.bfloat16_values);
  } else {
    return product.half_values;
  }
}

template <typename Vectors, typename Value, std::size_t rows>
void float_tile(const FloatProduct& product, std::size_t first_row, std::size_t column, const char* ahead,
                std::size_t ahead_step) noexcept {
  using Floats = typename Vectors::Floats;
  constexpr std::size_t lanes = Vectors::lanes;
  const float* row = product.rows + first_row * product.row_stride;
  const Value* values = values_of<Value>(product) + column;
  float* const out = product.out + first_row * product.out_stride + column;
  Floats left[rows], right[rows];
  if (product.factors == nullptr) {
#pragma GCC unroll 14
    for (std::size_t i = 0; i < rows; ++i) left[i] = right[i] = Floats{};
  } else {
#pragma GCC unroll 14
    for (std::size_t i = 0; i < rows; ++i) {
      const float factor = product.factors[first_row + i];
      left[i] = load<Floats>(out + i * product.out_stride) * factor;
      right[i] = load<Floats>(out + i * product.out_stride + lanes) * factor;
    }
  }
#pragma GCC unroll 1
  for (std::size_t k = 0; k < product.inner; ++k) {
    // Into the second cache: the nearest one is full of what is computed with.
    __builtin_prefetch(ahead, 0, 2);
    __builtin_prefetch(ahead + ahead_step / 2, 0, 2);
    ahead += ahead_step;
    const Floats left_values = load_as_floats<Vectors>(values), right_values = load_as_floats<Vectors>(values + lanes);
#pragma GCC unroll 14
    for (std::size_t i = 0; i < rows; ++i) {
      const auto value = __builtin_bit_cast(Floats, spread<Vectors>(row + i * product.row_stride));
      add_product<Floats>(left[i], value, left_values);
      add_product<Floats>(right[i], value, right_values);
    }
    values += product.value_stride;
    ++row;
  }
#pragma GCC unroll 14
  for (std::size_t i = 0; i < rows; ++i) {
    __builtin_memcpy(out + i * product.out_stride, &left[i], sizeof(Floats));
    __builtin_memcpy(out + i * product.out_stride + lanes, &right[i], sizeof(Floats));
  }
}

template <typename Vectors, typename Value, std::size_t... rows>
constexpr auto float_tiles_of(std::index_sequence<rows...> /*each less one*/) noexcept {
  using Tile = void (*)(const FloatProduct&, std::size_t, std::size_t, const char*, std::size_t) noexcept;
  return std::array<Tile, sizeof...(rows)>{float_tile<Vectors, Value, rows + 1>...};
}

template <typename Vectors, typename Value, std::size_t max_rows>
void product_with(const FloatProduct& product) noexcept {
  static constexpr auto tiles = float_tiles_of<Vectors, Value>(std::make_index_sequence<max_rows>());
  const std::size_t count = (product.row_count + max_rows - 1) / max_rows;
  if (count == 0) return;
  const auto* const ahead = static_cast<const char*>(product.ahead);
  const std::size_t parts = count * product.columns / (2 * Vectors::lanes);
  const std::size_t steps = parts * product.inner,
                    ahead_step = steps == 0 ? 0 : (product.ahead_bytes + steps - 1) / steps;
  std::size_t part = 0;
  for (std::size_t column = 0; column < product.columns; column += 2 * Vectors::lanes) {
    std::size_t row = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t end = product.row_count * (i + 1) / count;
      tiles[end - row - 1](product, row, column, ahead + product.ahead_bytes * part++ / parts, ahead_step);
      row = end;
    }
  }
}

template <typename Vectors, std::size_t max_rows>
void float_product_of(const FloatProduct& product) noexcept {
  if (product.bfloat16_values != nullptr) {
    product_with<Vectors, Bfloat16, max_rows>(product);
  } else if (product.half_values != nullptr) {
    product_with<Vectors, std::uint16_t, max_rows>(product);
  } else {
    product_with<Vectors, float, max_rows>(product);
  }
}

}  // namespace
}  // namespace gpux_cpu::decoder
