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

namespace gpux_cpu::decoder {
namespace {

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

template <typename Vectors_, typename Dot_, std::size_t bits_, std::size_t max_rows_, std::size_t stored_bits_ = bits_>
struct BlockKind {
  using Vectors = Vectors_;
  using Dot = Dot_;
  static constexpr std::size_t bits = bits_, max_rows = max_rows_;
  static constexpr std::size_t stored_bits = stored_bits_;  // 8 for weights of 4 bits that were unpacked
  static constexpr std::size_t depth = 32 / stored_bits;    // elements of a column in a step
  using Unpacked = BlockKind<Vectors, Dot, bits, max_rows, 8>;
};

/// Some blocks of a panel: their weights, and memory to fetch meanwhile, `ahead_step` bytes in each step.
struct PanelPart {
  std::size_t panel, first_block, last_block;
  const std::uint8_t* weights;
  const char* ahead;
  std::size_t ahead_step;
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
void block_tile(const BlockProduct& product, const PanelPart& part, std::size_t first_row,
                std::size_t column) noexcept {
  using Vectors = typename Kind::Vectors;
  using Integers = typename Vectors::Integers;
  using Floats = typename Vectors::Floats;
  constexpr std::size_t lanes = Vectors::lanes, chains = Kind::stored_bits == 4 && rows <= 3 && lanes == 16 ? 2 : 1;
  constexpr int zero_point_bits = Kind::bits - 1;
  const BlockRows& given = product.rows;
  const std::size_t blocks = given.blocks, stride = given.stride();
  const std::uint8_t* weights = part.weights + column * 4;
  const std::size_t first_scale = (part.panel * blocks + part.first_block) * panel_columns + column;
  const float* weight_scale = product.weight_scale + first_scale;
  const std::uint8_t* zero_points = product.zero_points == nullptr ? nullptr : product.zero_points + first_scale;
  const std::int8_t* row = given.bytes + first_row * stride + part.first_block * given.block_size;
  const float* row_scale = given.scale + first_row * blocks;
  const std::int32_t* row_sum = given.negative_sum + first_row * blocks;
  const char* ahead = part.ahead;
  const Integers half = Integers{} + 0x0F0F0F0F;
  const std::size_t out_column = (part.panel - product.first_panel) * panel_columns + column;
  float* out = product.out + first_row * product.out_stride + out_column;
  Floats left[rows], right[rows];
  if (part.first_block == 0) {
#pragma GCC unroll 6
    for (std::size_t i = 0; i < rows; ++i) left[i] = right[i] = Floats{};
  } else {
#pragma GCC unroll 6
    for (std::size_t i = 0; i < rows; ++i) {
      left[i] = load<Floats>(out + i * product.out_stride);
      right[i] = load<Floats>(out + i * product.out_stride + lanes);
    }
  }
#pragma GCC unroll 1
  for (std::size_t block = part.first_block; block < part.last_block; ++block) {
    Integers left_sum[chains][rows], right_sum[chains][rows];
    if (zero_points == nullptr) {
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) {
        left_sum[0][i] = right_sum[0][i] = spread<Vectors>(row_sum + i * blocks + block) << zero_point_bits;
      }
    } else {
      const Integers left_zero = widened<Vectors>(zero_points), right_zero = widened<Vectors>(zero_points + lanes);
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
      if (Kind::stored_bits == Kind::bits) {
        // Where one tile fetches all of it, these are two lines.
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + part.ahead_step / 2);
        ahead += part.ahead_step;
      }
      const auto left_weights = load<Integers>(weights), right_weights = load<Integers>(weights + lanes * 4);
      if constexpr (Kind::stored_bits == 8) {
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
  const bool has_bias = product.bias != nullptr && part.last_block == blocks;
  const float* bias = has_bias ? product.bias + part.panel * panel_columns + column : nullptr;
#pragma GCC unroll 6
  for (std::size_t i = 0; i < rows; ++i, out += product.out_stride) {
    if (has_bias) {
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
  using Tile = void (*)(const BlockProduct&, const PanelPart&, std::size_t, std::size_t) noexcept;
  return std::array<Tile, sizeof...(rows)>{block_tile<Kind, rows + 1>...};
}

template <typename Kind>
constexpr std::size_t tiles_for(std::size_t rows) noexcept {
  return (rows + Kind::max_rows - 1) / Kind::max_rows;
}

/// work(tile, first row), for all rows in tiles that differ by at most one row.
template <typename Kind, typename Work>
void for_each_tile(std::size_t rows, const Work& work) noexcept {
  static constexpr auto tiles = block_tiles_of<Kind>(std::make_index_sequence<Kind::max_rows>());
  const std::size_t count = tiles_for<Kind>(rows);
  for (std::size_t i = 0, row = 0; i < count; ++i) {
    const std::size_t end = rows * (i + 1) / count;
    work(tiles[end - row - 1], row);
    row = end;
  }
}

/// Weights of 4 bits as bytes, [inner / 4][32][4].
template <typename Vectors>
void unpack_nibbles(const std::uint8_t* weights, std::size_t inner, std::uint8_t* out) noexcept {
  using Integers = typename Vectors::Integers;
  const Integers half = Integers{} + 0x0F0F0F0F;
  constexpr std::size_t step_bytes = panel_columns * 4;
  for (std::size_t k = 0; k < inner; k += 8, weights += step_bytes, out += 2 * step_bytes) {
    for (std::size_t i = 0; i < step_bytes; i += sizeof(Integers)) {
      const auto both = load<Integers>(weights + i);
      const Integers low = both & half, high = (both >> 4) & half;
      __builtin_memcpy(out + i, &low, sizeof low);
      __builtin_memcpy(out + step_bytes + i, &high, sizeof high);
    }
  }
}

/// Many rows make up for unpacking the weights once for all of them, a part that stays in the nearest cache.
constexpr std::size_t unpacked_inner = 1024;
constexpr std::size_t rows_to_unpack_for = 32;

template <typename Kind>
void unpacked_block_product(const BlockProduct& product) noexcept {
  using Unpacked = typename Kind::Unpacked;
  alignas(64) std::uint8_t unpacked[unpacked_inner * panel_columns];
  const BlockRows& rows = product.rows;
  const std::size_t part_blocks = unpacked_inner / rows.block_size, block_bytes = rows.block_size * panel_columns / 2;
  constexpr std::size_t columns = 2 * Kind::Vectors::lanes;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    for (std::size_t first = 0; first < rows.blocks; first += part_blocks) {
      const std::size_t last = first + part_blocks < rows.blocks ? first + part_blocks : rows.blocks;
      unpack_nibbles<typename Kind::Vectors>(product.weights + (panel * rows.blocks + first) * block_bytes,
                                             (last - first) * rows.block_size, unpacked);
      const PanelPart part{panel, first, last, unpacked, nullptr, 0};
      for (std::size_t column = 0; column < panel_columns; column += columns) {
        for_each_tile<Unpacked>(rows.count, [&](auto tile, std::size_t row) { tile(product, part, row, column); });
      }
    }
  }
}

/// Bytes of rows that stay in the second cache while panels pass.
constexpr std::size_t rows_at_once_bytes = std::size_t{1} << 19;

template <typename Kind>
void block_product_of(const BlockProduct& product) noexcept {
  const std::size_t rows = product.rows.count, count = tiles_for<Kind>(rows);
  if (count == 0) return;
  constexpr std::size_t least = 8 * Kind::max_rows;
  const std::size_t fitting = rows_at_once_bytes / product.rows.stride() / least * least;
  const std::size_t at_once = fitting > least ? fitting : least;
  if (rows > at_once) {
    for (std::size_t row = 0; row < rows; row += at_once) {
      BlockProduct part = product;
      part.rows = product.rows.from(row, rows - row < at_once ? rows - row : at_once);
      part.out += row * product.out_stride;
      block_product_of<Kind>(part);
    }
    return;
  }
  if constexpr (Kind::bits == 4) {
    if (rows >= rows_to_unpack_for && product.rows.block_size <= unpacked_inner) {
      unpacked_block_product<Kind>(product);
      return;
    }
  }
  // The next panel is fetched while this one is multiplied, a part of it in each tile.
  constexpr std::size_t columns = 2 * Kind::Vectors::lanes;
  const std::size_t parts = count * panel_columns / columns;
  const std::size_t panel_bytes = product.rows.stride() * panel_columns * Kind::bits / 8;
  const std::size_t ahead_step = (panel_columns * 4 + parts - 1) / parts;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    const std::uint8_t* const weights = product.weights + panel * panel_bytes;
    const auto* const next = reinterpret_cast<const char*>(weights + panel_bytes);
    std::size_t index = 0;
    for (std::size_t column = 0; column < panel_columns; column += columns) {
      for_each_tile<Kind>(rows, [&](auto tile, std::size_t row) {
        tile(product, {panel, 0, product.rows.blocks, weights, next + panel_bytes * index++ / parts, ahead_step}, row,
             column);
      });
    }
  }
}

}  // namespace
}  // namespace gpux_cpu::decoder
