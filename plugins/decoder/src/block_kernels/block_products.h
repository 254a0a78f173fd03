// Products of rows of bytes and packed blocks of weights, for vectors of any width. Each source that includes this has
// its own copy, compiled for its instruction set, so that none is linked into another.
//
// A tile is some rows and two vectors of columns: its sums stay in registers while `inner` is gone through. The sums
// are added to by assembly, since GCC 12 moves them to memory and back otherwise.
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

/// sum += the four products of weights less `zero_point` and bytes of a row in each lane.
struct DotInstruction {
  static constexpr int zero_point = 0;

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

/// For weights of at most 127, of which two products fit into 16 bits.
struct SmallMadd {
  static constexpr int zero_point = 0;

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

/// For weights of up to 255, as 128 and a signed byte: its magnitude times the row's byte, which takes its sign. Two
/// products of at most 128 and 127 fit into 16 bits. A row's byte is never -128, whose negative would not fit.
struct SignedMadd {
  static constexpr int zero_point = 128;

  template <typename Vectors>
  static void add(typename Vectors::Integers& sum, typename Vectors::Integers weights,
                  typename Vectors::Integers row) noexcept {
    using Words = typename Vectors::Words;
    using Integers = typename Vectors::Integers;
    const Words ones = Words{} + 1;
    const Integers signs = weights ^ (Integers{} + static_cast<std::int32_t>(0x80808080));
    Integers magnitudes, products;
    asm("vpabsb %1, %0" : "=v"(magnitudes) : "v"(signs));
    asm("vpsignb %3, %4, %1\n\tvpmaddubsw %1, %2, %1\n\tvpmaddwd %5, %1, %1\n\tvpaddd %1, %0, %0"
        : "+v"(sum), "=&v"(products)
        : "v"(magnitudes), "v"(signs), "v"(row), "v"(ones));
  }
};

/// Of 16 values, those that the bytes are indices of.
template <typename Vectors>
inline typename Vectors::Integers looked_up(const std::uint8_t* values, typename Vectors::Integers indices) noexcept {
  typename Vectors::Integers table, found;
  if constexpr (Vectors::lanes == 16) {
    asm("vbroadcasti32x4 %1, %0" : "=v"(table) : "m"(*reinterpret_cast<const Lanes<std::uint8_t, Vectors>*>(values)));
  } else {
    struct Values {
      std::uint8_t values[16];
    };

    asm("vbroadcasti128 %1, %0" : "=x"(table) : "m"(*reinterpret_cast<const Values*>(values)));
  }
  asm("vpshufb %2, %1, %0" : "=v"(found) : "v"(table), "v"(indices));
  return found;
}

/// How weights of a form become bytes, in steps of `depth` elements of each column: `parts` vectors of four elements.
/// A step of a panel has `rows` rows of 128 bytes.
struct ByteLoader {
  static constexpr std::size_t depth = 4, rows = 1, parts = 1;

  template <typename Vectors>
  static typename Vectors::Integers bytes(const std::uint8_t* from, std::size_t /*part*/,
                                          const std::uint8_t* /*coded_values*/) noexcept {
    return load<typename Vectors::Integers>(from);
  }
};

struct NibbleLoader {
  static constexpr std::size_t depth = 8, rows = 1, parts = 2;

  template <typename Vectors>
  static typename Vectors::Integers bytes(const std::uint8_t* from, std::size_t part,
                                          const std::uint8_t* /*coded_values*/) noexcept {
    using Integers = typename Vectors::Integers;
    const auto both = load<Integers>(from);
    return (part == 0 ? both : both >> 4) & (Integers{} + 0x0F0F0F0F);
  }
};

struct CodedLoader {
  static constexpr std::size_t depth = 8, rows = 1, parts = 2;

  template <typename Vectors>
  static typename Vectors::Integers bytes(const std::uint8_t* from, std::size_t part,
                                          const std::uint8_t* coded_values) noexcept {
    return looked_up<Vectors>(coded_values, NibbleLoader::bytes<Vectors>(from, part, nullptr));
  }
};

struct SixBitLoader {
  static constexpr std::size_t depth = 16, rows = 3, parts = 4;

  template <typename Vectors>
  static typename Vectors::Integers bytes(const std::uint8_t* from, std::size_t part,
                                          const std::uint8_t* /*coded_values*/) noexcept {
    using Integers = typename Vectors::Integers;
    constexpr std::size_t row_bytes = panel_columns * 4;
    const Integers lower = NibbleLoader::bytes<Vectors>(from + part / 2 * row_bytes, part % 2, nullptr);
    const auto upper = load<Integers>(from + 2 * row_bytes);
    const Integers placed = part == 0 ? upper << 4 : part == 1 ? upper << 2 : part == 2 ? upper : upper >> 2;
    return lower | (placed & (Integers{} + 0x30303030));
  }
};

template <typename Vectors_, typename Dot_, typename Loader_, std::size_t max_rows_, std::size_t max_unpacked_rows,
          bool is_unpacked_ = false>
struct BlockKind {
  using Vectors = Vectors_;
  using Dot = Dot_;
  using Loader = Loader_;
  static constexpr std::size_t max_rows = max_rows_;
  static constexpr bool is_unpacked = is_unpacked_;  // the weights are a copy in the nearest cache
  static constexpr bool is_packed = Loader::parts > 1;
  static constexpr std::size_t step_bytes = Loader::rows * panel_columns * 4;
  using Unpacked = BlockKind<Vectors, Dot, ByteLoader, max_unpacked_rows, max_unpacked_rows, true>;
};

/// Some blocks of a panel: their weights, and memory to fetch meanwhile, `ahead_step` bytes in each step.
struct PanelPart {
  std::size_t panel, first_block, last_block;
  const std::uint8_t* weights;
  const char* ahead;
  std::size_t ahead_step;
  BlockNumbers scale, minimums;
  std::size_t first_number;  ///< index of first_block in both
};

template <typename Vectors>
inline typename Vectors::Floats spread_float(const float* from) noexcept {
  return __builtin_bit_cast(typename Vectors::Floats, spread<Vectors>(from));
}

/// `chains`: how many sums each element has, which are added at the end of a block: with few rows, one would wait for
/// the other.
template <typename Kind, std::size_t rows>
void block_tile(const BlockProduct& product, const PanelPart& part, std::size_t first_row,
                std::size_t column) noexcept {
  using Vectors = typename Kind::Vectors;
  using Integers = typename Vectors::Integers;
  using Floats = typename Vectors::Floats;
  using Loader = typename Kind::Loader;
  constexpr std::size_t lanes = Vectors::lanes, chains = Kind::is_packed && rows <= 3 && lanes == 16 ? 2 : 1;
  constexpr int zero_point = Kind::Dot::zero_point;
  const int zero_point_shift = product.zero_point == 0 ? 0 : __builtin_ctz(product.zero_point);
  const BlockRows& given = product.rows;
  const std::size_t blocks = given.blocks, stride = given.stride();
  const std::uint8_t* weights = part.weights + column * 4;
  const std::size_t panel_block = part.panel * blocks;
  const bool has_minimums = !part.minimums.empty();
  const std::int8_t* row = given.bytes + first_row * stride + part.first_block * given.block_size;
  const float* row_scale = given.scale + first_row * blocks;
  const std::int32_t* row_sum = given.negative_sum + first_row * blocks;
  const char* ahead = part.ahead;
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
    if (product.zero_points == nullptr && product.zero_point == zero_point) {
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) left_sum[0][i] = right_sum[0][i] = Integers{};
    } else if (product.zero_points == nullptr) {
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) {
        const Integers sum = spread<Vectors>(row_sum + i * blocks + block);
        left_sum[0][i] = right_sum[0][i] =
            zero_point == 0 ? sum << zero_point_shift : sum * (product.zero_point - zero_point);
      }
    } else {
      const std::uint8_t* const zero_points = product.zero_points + (panel_block + block) * panel_columns + column;
      const Integers left_zero = load_as_integers<Vectors>(zero_points) - zero_point,
                     right_zero = load_as_integers<Vectors>(zero_points + lanes) - zero_point;
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) {
        const Integers sum = spread<Vectors>(row_sum + i * blocks + block);
        left_sum[0][i] = sum * left_zero;
        right_sum[0][i] = sum * right_zero;
      }
    }
    if constexpr (chains == 2) {
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) left_sum[1][i] = right_sum[1][i] = Integers{};
    }
#pragma GCC unroll 1
    for (std::size_t k = 0; k < given.block_size; k += Loader::depth) {
      if constexpr (!Kind::is_unpacked) {
        // Where one tile fetches all of it, these are two lines for each row.
#pragma GCC unroll 3
        for (std::size_t i = 0; i < Loader::rows; ++i) {
          __builtin_prefetch(ahead);
          __builtin_prefetch(ahead + part.ahead_step / 2);
          ahead += part.ahead_step;
        }
      }
#pragma GCC unroll 4
      for (std::size_t quad = 0; quad < Loader::parts; ++quad) {
        const Integers left_weights = Loader::template bytes<Vectors>(weights, quad, product.coded_values);
        const Integers right_weights = Loader::template bytes<Vectors>(weights + lanes * 4, quad, product.coded_values);
#pragma GCC unroll 6
        for (std::size_t i = 0; i < rows; ++i) {
          const Integers values = spread<Vectors>(row + i * stride + 4 * quad);
          Kind::Dot::template add<Vectors>(left_sum[quad % chains][i], left_weights, values);
          Kind::Dot::template add<Vectors>(right_sum[quad % chains][i], right_weights, values);
        }
      }
      weights += Kind::step_bytes;
      row += Loader::depth;
    }
    const std::size_t number = part.first_number + block - part.first_block;
    const Floats left_scale = load_numbers<Vectors>(part.scale, number, column),
                 right_scale = load_numbers<Vectors>(part.scale, number, column + lanes);
    Floats left_term[rows], right_term[rows];
#pragma GCC unroll 6
    for (std::size_t i = 0; i < rows; ++i) {
      Integers left_dot = left_sum[0][i], right_dot = right_sum[0][i];
      if constexpr (chains == 2) {
        left_dot += left_sum[1][i];
        right_dot += right_sum[1][i];
      }
      left_term[i] = __builtin_convertvector(left_dot, Floats) * left_scale;
      right_term[i] = __builtin_convertvector(right_dot, Floats) * right_scale;
    }
    if (has_minimums) {
      const Floats left_minimum = load_numbers<Vectors>(part.minimums, number, column),
                   right_minimum = load_numbers<Vectors>(part.minimums, number, column + lanes);
#pragma GCC unroll 6
      for (std::size_t i = 0; i < rows; ++i) {
        const Floats sum = __builtin_convertvector(spread<Vectors>(row_sum + i * blocks + block), Floats);
        add_product<Floats>(left_term[i], sum, left_minimum);
        add_product<Floats>(right_term[i], sum, right_minimum);
      }
    }
#pragma GCC unroll 6
    for (std::size_t i = 0; i < rows; ++i) {
      const Floats scale = spread_float<Vectors>(row_scale + i * blocks + block);
      add_product<Floats>(left[i], left_term[i], scale);
      add_product<Floats>(right[i], right_term[i], scale);
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

/// Weights as bytes, [inner / 4][32][4].
template <typename Kind>
void unpack(const std::uint8_t* weights, const std::uint8_t* coded_values, std::size_t inner,
            std::uint8_t* out) noexcept {
  using Vectors = typename Kind::Vectors;
  using Loader = typename Kind::Loader;
  constexpr std::size_t row_bytes = panel_columns * 4, vector_bytes = sizeof(typename Vectors::Integers);
  for (std::size_t k = 0; k < inner; k += Loader::depth, weights += Kind::step_bytes) {
    for (std::size_t i = 0; i < row_bytes; i += vector_bytes) {
#pragma GCC unroll 4
      for (std::size_t part = 0; part < Loader::parts; ++part) {
        const typename Vectors::Integers bytes = Loader::template bytes<Vectors>(weights + i, part, coded_values);
        __builtin_memcpy(out + part * row_bytes + i, &bytes, vector_bytes);
      }
    }
    out += Loader::parts * row_bytes;
  }
}

/// The numbers of some blocks of all panels as floats, in `memory` if they are none: once for all tiles.
template <typename Vectors>
BlockNumbers widened(const BlockNumbers& numbers, std::size_t first, std::size_t count, float* memory) noexcept {
  if (numbers.empty()) return {};
  if (numbers.floats != nullptr) return {.floats = numbers.floats + first * panel_columns};
  for (std::size_t block = 0; block < count; ++block) {
    for (std::size_t column = 0; column < panel_columns; column += Vectors::lanes) {
      const auto values = load_numbers<Vectors>(numbers, first + block, column);
      __builtin_memcpy(memory + block * panel_columns + column, &values, sizeof values);
    }
  }
  return {.floats = memory};
}

/// Many rows make up for unpacking the weights once for all of them, a part that stays in the nearest cache.
constexpr std::size_t unpacked_inner = 1024;
template <typename Kind>
inline constexpr std::size_t rows_to_unpack_for =
    std::is_same_v<typename Kind::Loader, NibbleLoader> ? 32 : 4 * Kind::max_rows;

template <typename Kind>
void unpacked_block_product(const BlockProduct& product) noexcept {
  using Unpacked = typename Kind::Unpacked;
  using Vectors = typename Kind::Vectors;
  alignas(64) std::uint8_t unpacked[unpacked_inner * panel_columns];
  constexpr std::size_t max_numbers = unpacked_inner / 8 * panel_columns;
  alignas(64) float scale[max_numbers], minimums[max_numbers];
  const BlockRows& rows = product.rows;
  const std::size_t part_blocks = unpacked_inner / rows.block_size,
                    block_bytes = rows.block_size / Kind::Loader::depth * Kind::step_bytes;
  constexpr std::size_t columns = 2 * Kind::Vectors::lanes;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    for (std::size_t first = 0; first < rows.blocks; first += part_blocks) {
      const std::size_t last = first + part_blocks < rows.blocks ? first + part_blocks : rows.blocks;
      unpack<Kind>(product.weights + (panel * rows.blocks + first) * block_bytes, product.coded_values,
                   (last - first) * rows.block_size, unpacked);
      const std::size_t number = panel * rows.blocks + first;
      const PanelPart part{.panel = panel,
                           .first_block = first,
                           .last_block = last,
                           .weights = unpacked,
                           .ahead = nullptr,
                           .ahead_step = 0,
                           .scale = widened<Vectors>(product.weight_scale, number, last - first, scale),
                           .minimums = widened<Vectors>(product.minimums, number, last - first, minimums),
                           .first_number = 0};
      for (std::size_t column = 0; column < panel_columns; column += columns) {
        for_each_tile<Unpacked>(rows.count, [&](auto tile, std::size_t row) { tile(product, part, row, column); });
      }
    }
  }
}

/// Blocks of a row whose numbers are widened for several tiles: 64 KB of them.
constexpr std::size_t max_widened_blocks = 512;

template <typename Kind>
[[gnu::noinline]] void block_product_by_panels(const BlockProduct& product) noexcept {
  const std::size_t rows = product.rows.count, count = tiles_for<Kind>(rows);
  // The next panel is fetched while this one is multiplied, a part of it in each tile.
  constexpr std::size_t columns = 2 * Kind::Vectors::lanes;
  const std::size_t parts = count * panel_columns / columns;
  const std::size_t panel_bytes = product.rows.stride() / Kind::Loader::depth * Kind::step_bytes;
  const std::size_t ahead_step = (panel_columns * 4 + parts - 1) / parts;
  alignas(64) float scale[max_widened_blocks * panel_columns], minimums[max_widened_blocks * panel_columns];
  const std::size_t blocks = product.rows.blocks;
  const bool widens = count > 2 && blocks <= max_widened_blocks;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    PanelPart part{.panel = panel,
                   .first_block = 0,
                   .last_block = blocks,
                   .weights = product.weights + panel * panel_bytes,
                   .ahead = nullptr,
                   .ahead_step = ahead_step,
                   .scale = product.weight_scale,
                   .minimums = product.minimums,
                   .first_number = panel * blocks};
    if (widens) {
      part.scale = widened<typename Kind::Vectors>(product.weight_scale, panel * blocks, blocks, scale);
      part.minimums = widened<typename Kind::Vectors>(product.minimums, panel * blocks, blocks, minimums);
      part.first_number = 0;
    }
    const auto* const next = reinterpret_cast<const char*>(part.weights + panel_bytes);
    std::size_t index = 0;
    for (std::size_t column = 0; column < panel_columns; column += columns) {
      for_each_tile<Kind>(rows, [&](auto tile, std::size_t row) {
        part.ahead = next + panel_bytes * index++ / parts;
        tile(product, part, row, column);
      });
    }
  }
}

/// Bytes of rows that stay in the second cache while panels pass.
constexpr std::size_t rows_at_once_bytes = std::size_t{1} << 19;

template <typename Kind>
void block_product_of(const BlockProduct& product) noexcept {
  const std::size_t rows = product.rows.count;
  if (rows == 0) return;
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
  if constexpr (Kind::is_packed) {
    if (rows >= rows_to_unpack_for<Kind> && product.rows.block_size <= unpacked_inner) {
      unpacked_block_product<Kind>(product);
      return;
    }
  }
  block_product_by_panels<Kind>(product);
}

/// By form. Small: for weights of at most 127. `max_rows` are the rows of a tile, `fewer_rows` where unpacking takes
/// more registers.
template <typename Vectors, typename Small, typename Dot, std::size_t max_rows, std::size_t fewer_rows>
constexpr std::array<BlockProductFunction, weight_forms> block_products_of() noexcept {
  return {block_product_of<BlockKind<Vectors, Small, NibbleLoader, max_rows, max_rows>>,
          block_product_of<BlockKind<Vectors, Dot, CodedLoader, fewer_rows, max_rows>>,
          block_product_of<BlockKind<Vectors, Small, SixBitLoader, fewer_rows, max_rows>>,
          block_product_of<BlockKind<Vectors, Small, ByteLoader, max_rows, max_rows>>,
          block_product_of<BlockKind<Vectors, Dot, ByteLoader, max_rows, max_rows>>};
}

}  // namespace
}  // namespace gpux_cpu::decoder
