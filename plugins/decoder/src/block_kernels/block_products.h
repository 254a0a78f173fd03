// Products of rows of bytes and packed blocks of weights, for vectors of any width. Each source that includes this has
// its own copy, compiled for its instruction set, so that none is linked into another.
//
// A tile is some rows and two vectors of columns: its sums stay in registers while `inner` is gone through. The sums
// are added to by assembly, since GCC 12 moves them to memory and back otherwise.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "block_kernels/block_kernels.h"
#include "kernels/vectors.h"

namespace gpux_decoder {
namespace {

using gpux_encoder::add_product;
using gpux_encoder::load;
using gpux_encoder::spread;
using gpux_encoder::Vectors256;
using gpux_encoder::Vectors512;

/// sum += the four products of unsigned and signed bytes in each lane.
struct DotInstruction {
  template <typename Vectors>
  static void add(typename Vectors::Integers& sum, typename Vectors::Integers weights,
                  typename Vectors::Integers row) noexcept {
#if defined(__AVX512VNNI__)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(row));
#else
    // AVX-VNNI is the same instruction in another coding.
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(row));
#endif
  }
};

/// For weights of 4 bits, of which two products fit into 16 bits.
struct NibbleMadd {
  template <typename Vectors>
  static void add(typename Vectors::Integers& sum, typename Vectors::Integers weights,
                  typename Vectors::Integers row) noexcept {
    using Words = typename Vectors::Words;
    const Words ones = Words{} + 1;
    typename Vectors::Integers products;
    asm("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
        : "+v"(sum), "=&v"(products)
        : "v"(weights), "v"(row), "v"(ones));
  }
};

/// Bytes as words, of which two products fit into a sum of 32 bits: those at even indices, then those at odd ones.
struct ByteMadd {
  template <typename Vectors>
  static void add(typename Vectors::Integers& sum, typename Vectors::Integers weights,
                  typename Vectors::Integers row) noexcept {
    using Words = typename Vectors::Words;
    using UnsignedWords = typename Vectors::UnsignedWords;
    const auto unsigned_words = __builtin_bit_cast(UnsignedWords, weights);
    const auto words = __builtin_bit_cast(Words, row);
    add_words<Vectors>(sum, __builtin_bit_cast(Words, unsigned_words & 0xFF), (words << 8) >> 8);
    add_words<Vectors>(sum, __builtin_bit_cast(Words, unsigned_words >> 8), words >> 8);
  }

 private:
  template <typename Vectors>
  static void add_words(typename Vectors::Integers& sum, typename Vectors::Words weights,
                        typename Vectors::Words row) noexcept {
    typename Vectors::Integers products;
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "=&v"(products) : "v"(weights), "v"(row));
  }
};

template <typename Vectors_, typename Dot_, std::size_t bits_, std::size_t max_rows_>
struct BlockKind {
  using Vectors = Vectors_;
  using Dot = Dot_;
  static constexpr std::size_t bits = bits_, max_rows = max_rows_;
  static constexpr std::size_t depth = 32 / bits;  // elements of a column in a step
};

template <typename Vectors>
inline typename Vectors::Floats spread_float(const float* from) noexcept {
  return __builtin_bit_cast(typename Vectors::Floats, spread<Vectors>(from));
}

/// A byte in each lane.
template <typename Vectors>
inline typename Vectors::Integers widened(const std::uint8_t* from) noexcept {
  struct Bytes {
    std::uint8_t bytes[Vectors::lanes];
  };

  typename Vectors::Integers value;
  asm("vpmovzxbd %1, %0" : "=v"(value) : "m"(*reinterpret_cast<const Bytes*>(from)));
  return value;
}

/// `chains`: how many sums each element has, which are added at the end of a block: with few rows, one would wait for
/// the other.
template <typename Kind, std::size_t rows>
void block_tile(const BlockProduct& product, std::size_t panel, std::size_t first_row, std::size_t column,
                const char* ahead, std::size_t ahead_step) noexcept {
  using Vectors = typename Kind::Vectors;
  using Integers = typename Vectors::Integers;
  using Floats = typename Vectors::Floats;
  constexpr std::size_t lanes = Vectors::lanes, chains = Kind::bits == 4 && rows <= 3 && lanes == 16 ? 2 : 1;
  const BlockRows& given = product.rows;
  const std::size_t blocks = given.blocks, stride = given.stride();
  const std::uint8_t* weights = product.weights + panel * stride * panel_columns * Kind::bits / 8 + column * 4;
  const float* weight_scale = product.weight_scale + panel * blocks * panel_columns + column;
  const std::uint8_t* zero_points =
      product.zero_points == nullptr ? nullptr : product.zero_points + panel * blocks * panel_columns + column;
  const std::int8_t* row = given.bytes + first_row * stride;
  const float* row_scale = given.scale + first_row * blocks;
  const std::int32_t* row_sum = given.sum + first_row * blocks;
  const Integers zero_point = Integers{} - product.zero_point;
  const Integers half = Integers{} + 0x0F0F0F0F;
  Floats left[rows], right[rows];
#pragma GCC unroll 6
  for (std::size_t i = 0; i < rows; ++i) left[i] = right[i] = Floats{};
#pragma GCC unroll 1
  for (std::size_t block = 0; block < blocks; ++block) {
    Integers left_sum[chains][rows], right_sum[chains][rows];
    if (zero_points == nullptr) {
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) {
        left_sum[0][i] = right_sum[0][i] = spread<Vectors>(row_sum + i * blocks + block) * zero_point;
      }
    } else {
      const Integers left_zero = -widened<Vectors>(zero_points), right_zero = -widened<Vectors>(zero_points + lanes);
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) {
        const Integers sum = spread<Vectors>(row_sum + i * blocks + block);
        left_sum[0][i] = sum * left_zero;
        right_sum[0][i] = sum * right_zero;
      }
      zero_points += panel_columns;
    }
    if constexpr (chains == 2) {
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) left_sum[1][i] = right_sum[1][i] = Integers{};
    }
#pragma GCC unroll 1
    for (std::size_t k = 0; k < given.block_size; k += Kind::depth) {
      // Where one tile fetches all of it, these are two lines.
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + ahead_step / 2);
      ahead += ahead_step;
      const auto left_weights = load<Integers>(weights), right_weights = load<Integers>(weights + lanes * 4);
      if constexpr (Kind::bits == 8) {
#pragma GCC unroll 6
        for (std::size_t i = 0; i < rows; ++i) {
          const Integers values = spread<Vectors>(row + i * stride);
          Kind::Dot::template add<Vectors>(left_sum[0][i], left_weights, values);
          Kind::Dot::template add<Vectors>(right_sum[0][i], right_weights, values);
        }
      } else {
        const Integers left_low = left_weights & half, right_low = right_weights & half;
#pragma GCC unroll 6
        for (std::size_t i = 0; i < rows; ++i) {
          const Integers values = spread<Vectors>(row + i * stride);
          Kind::Dot::template add<Vectors>(left_sum[0][i], left_low, values);
          Kind::Dot::template add<Vectors>(right_sum[0][i], right_low, values);
        }
        const Integers left_high = (left_weights >> 4) & half, right_high = (right_weights >> 4) & half;
#pragma GCC unroll 6
        for (std::size_t i = 0; i < rows; ++i) {
          const Integers values = spread<Vectors>(row + i * stride + 4);
          Kind::Dot::template add<Vectors>(left_sum[chains - 1][i], left_high, values);
          Kind::Dot::template add<Vectors>(right_sum[chains - 1][i], right_high, values);
        }
      }
      weights += panel_columns * 4;
      row += Kind::depth;
    }
    const auto left_scale = load<Floats>(weight_scale), right_scale = load<Floats>(weight_scale + lanes);
    weight_scale += panel_columns;
#pragma GCC unroll 6
    for (std::size_t i = 0; i < rows; ++i) {
      Integers left_dot = left_sum[0][i], right_dot = right_sum[0][i];
      if constexpr (chains == 2) {
        left_dot += left_sum[1][i];
        right_dot += right_sum[1][i];
      }
      const Floats scale = spread_float<Vectors>(row_scale + i * blocks + block);
      add_product<Floats>(left[i], __builtin_convertvector(left_dot, Floats) * left_scale, scale);
      add_product<Floats>(right[i], __builtin_convertvector(right_dot, Floats) * right_scale, scale);
    }
  }
  const std::size_t out_column = (panel - product.first_panel) * panel_columns + column;
  float* out = product.out + first_row * product.out_stride + out_column;
  const float* bias = product.bias == nullptr ? nullptr : product.bias + panel * panel_columns + column;
#pragma GCC unroll 6
  for (std::size_t i = 0; i < rows; ++i, out += product.out_stride) {
    if (bias != nullptr) {
      left[i] += load<Floats>(bias);
      right[i] += load<Floats>(bias + lanes);
    }
    __builtin_memcpy(out, &left[i], sizeof(Floats));
    __builtin_memcpy(out + lanes, &right[i], sizeof(Floats));
  }
}

/// The tiles of one row, of two, and so on.
template <typename Kind, std::size_t... rows>
constexpr auto block_tiles_of(std::index_sequence<rows...> /*each less one*/) noexcept {
  using Tile = void (*)(const BlockProduct&, std::size_t, std::size_t, std::size_t, const char*, std::size_t) noexcept;
  return std::array<Tile, sizeof...(rows)>{block_tile<Kind, rows + 1>...};
}

template <typename Kind>
void block_product_of(const BlockProduct& product) noexcept {
  static constexpr auto tiles = block_tiles_of<Kind>(std::make_index_sequence<Kind::max_rows>());
  const std::size_t rows = product.rows.count, count = (rows + Kind::max_rows - 1) / Kind::max_rows;
  if (count == 0) return;
  // The next panel is fetched while this one is multiplied, a part of it in each tile.
  constexpr std::size_t columns = 2 * Kind::Vectors::lanes;
  const std::size_t parts = count * panel_columns / columns;
  const std::size_t panel_bytes = product.rows.stride() * panel_columns * Kind::bits / 8;
  const std::size_t ahead_step = (panel_columns * 4 + parts - 1) / parts;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    const auto* next = reinterpret_cast<const char*>(product.weights) + (panel + 1) * panel_bytes;
    std::size_t part = 0;
    for (std::size_t column = 0; column < panel_columns; column += columns) {
      std::size_t row = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t end = rows * (i + 1) / count;
        tiles[end - row - 1](product, panel, row, column, next + panel_bytes * part++ / parts, ahead_step);
        row = end;
      }
    }
  }
}

}  // namespace
}  // namespace gpux_decoder
