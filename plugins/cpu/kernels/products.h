// Products of rows and packed panels for vectors of any width. Each source that includes this has its own copy,
// compiled for its instruction set, so that none is linked into another.
//
// A tile is some rows and two vectors of columns: its sums stay in registers while `inner` is gone through. The sums
// are added to by assembly, since GCC 12 moves them to memory and back otherwise.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "kernels/kernels.h"
#include "kernels/row_operations.h"
#include "kernels/vectors.h"

namespace gpux_cpu {
namespace {

// A kind of products: tiles of up to `rows` rows; `passes` over the `depth` elements of a step, each of which
// multiplies the results of `row` and `weights`.

template <typename Vectors_, std::size_t rows>
struct FloatKind {
  using Vectors = Vectors_;
  using Product = FloatProduct;
  using Sum = typename Vectors::Floats;
  static constexpr std::size_t depth = float_depth, passes = 1, max_rows = rows;

  template <std::size_t>
  static Sum row(const float* values) noexcept {
    return *values - Sum{};
  }

  template <std::size_t>
  static Sum weights(const float* values) noexcept {
    return load<Sum>(values);
  }

  static void add(Sum& sum, Sum row, Sum weights) noexcept { add_product(sum, row, weights); }
};

struct Bfloat16sOfLanes {
  using Product = Bfloat16Product;
  template <typename Vectors>
  using Sum = typename Vectors::Floats;
  static constexpr std::size_t depth = bfloat16_depth;

  template <typename Floats, typename Integers>
  static void add(Floats& sum, Integers row, Integers weights) noexcept {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
  }
};

struct BytesOfLanes {
  using Product = ByteProduct;
  template <typename Vectors>
  using Sum = typename Vectors::Integers;
  static constexpr std::size_t depth = byte_depth;

  template <typename Integers>
  static void add(Integers& sum, Integers row, Integers weights) noexcept {
#if defined(__AVX512VNNI__)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
#else
    // AVX-VNNI is the same instruction in another coding.
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
#endif
  }
};

/// By an instruction that multiplies what four bytes of a lane hold, and adds it up.
template <typename Vectors_, typename Instruction, std::size_t rows>
struct DotKind {
  using Vectors = Vectors_;
  using Product = typename Instruction::Product;
  using Sum = typename Instruction::template Sum<Vectors>;
  static constexpr std::size_t depth = Instruction::depth, passes = 1, max_rows = rows;

  template <std::size_t>
  static typename Vectors::Integers row(const void* values) noexcept {
    return spread<Vectors>(values);
  }

  template <std::size_t>
  static typename Vectors::Integers weights(const void* values) noexcept {
    return load<typename Vectors::Integers>(values);
  }

  static void add(Sum& sum, typename Vectors::Integers row, typename Vectors::Integers weights) noexcept {
    Instruction::add(sum, row, weights);
  }
};

/// bfloat16 values widened to float: those at even indices, then those at odd ones.
template <typename Vectors_, std::size_t rows>
struct WidenedBfloat16Kind {
  using Vectors = Vectors_;
  using Product = Bfloat16Product;
  using Sum = typename Vectors::Floats;
  static constexpr std::size_t depth = bfloat16_depth, passes = 2, max_rows = rows;

  template <std::size_t pass>
  static Sum widened(typename Vectors::Integers pairs) noexcept {
    return __builtin_bit_cast(Sum, pass == 0 ? pairs << 16 : pairs & static_cast<std::int32_t>(0xFFFF0000));
  }

  template <std::size_t pass>
  static Sum row(const std::uint16_t* values) noexcept {
    return widened<pass>(spread<Vectors>(values));
  }

  template <std::size_t pass>
  static Sum weights(const std::uint16_t* values) noexcept {
    return widened<pass>(load<typename Vectors::Integers>(values));
  }

  static void add(Sum& sum, Sum row, Sum weights) noexcept { add_product(sum, row, weights); }
};

/// Bytes as words, of which two products fit into a sum of 32 bits: those at even indices, then those at odd ones.
template <typename Vectors_, std::size_t rows>
struct WidenedByteKind {
  using Vectors = Vectors_;
  using Product = ByteProduct;
  using Sum = typename Vectors::Integers;
  using Words = typename Vectors::Words;
  static constexpr std::size_t depth = byte_depth, passes = 2, max_rows = rows;

  template <std::size_t pass>
  static Words row(const std::uint8_t* values) noexcept {
    const auto pairs = __builtin_bit_cast(typename Vectors::UnsignedWords, spread<Vectors>(values));
    return __builtin_bit_cast(Words, pass == 0 ? pairs & 0xFF : pairs >> 8);
  }

  template <std::size_t pass>
  static Words weights(const std::int8_t* values) noexcept {
    const auto pairs = load<Words>(values);
    return pass == 0 ? (pairs << 8) >> 8 : pairs >> 8;
  }

  static void add(Sum& sum, Words row, Words weights) noexcept {
    Words products;
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "=&v"(products) : "v"(row), "v"(weights));
  }
};

/// Converts the sums of one vector of columns into results (bias, scales). Loaded once for all rows of a tile.
template <typename Vectors, typename Product>
struct Columns {
  using Floats = typename Vectors::Floats;

  Columns(const Product& product, std::size_t column) noexcept
      : bias(product.bias == nullptr ? Floats{} : load<Floats>(product.bias + column)) {}

  [[nodiscard]] Floats result(const Product& /*product*/, std::size_t /*row*/, Floats sum) const noexcept {
    return sum + bias;
  }

  Floats bias;
};

template <typename Vectors>
struct Columns<Vectors, ByteProduct> {
  using Floats = typename Vectors::Floats;
  using Integers = typename Vectors::Integers;

  Columns(const ByteProduct& product, std::size_t column) noexcept
      : bias(product.bias == nullptr ? Floats{} : load<Floats>(product.bias + column)),
        scale(load<Floats>(product.column_scale + column)),
        sum_of_weights(load<Integers>(product.column_sum + column)) {}

  [[nodiscard]] Floats result(const ByteProduct& product, std::size_t row, Integers sum) const noexcept {
    const Integers whole = sum - product.row_zero[row] * sum_of_weights;
    return __builtin_convertvector(whole, Floats) * (product.row_scale[row] * scale) + bias;
  }

  Floats bias, scale;
  Integers sum_of_weights;
};

template <typename Kind, std::size_t rows>
[[gnu::always_inline]] inline void store(const typename Kind::Product& product, std::size_t first_row,
                                         std::size_t column, const typename Kind::Sum (&sums)[rows]) noexcept {
  const Columns<typename Kind::Vectors, typename Kind::Product> columns(product, column);
  float* out = product.out + first_row * product.out_stride + column;
#pragma GCC unroll 14
  for (std::size_t i = 0; i < rows; ++i, out += product.out_stride) {
    const auto result = columns.result(product, first_row + i, sums[i]);
    __builtin_memcpy(out, &result, sizeof result);
  }
}

template <typename Kind, std::size_t pass, std::size_t rows, typename Element, typename Weight>
[[gnu::always_inline]] inline void step(typename Kind::Sum (&left)[rows], typename Kind::Sum (&right)[rows],
                                        const Element* row, std::size_t row_stride, const Weight* weights) noexcept {
  const auto weights_left = Kind::template weights<pass>(weights);
  const auto weights_right = Kind::template weights<pass>(weights + Kind::Vectors::lanes * Kind::depth);
#pragma GCC unroll 14
  for (std::size_t i = 0; i < rows; ++i) {
    const auto values = Kind::template row<pass>(row + i * row_stride);
    Kind::add(left[i], values, weights_left);
    Kind::add(right[i], values, weights_right);
  }
}

/// `ahead`: what is to be fetched meanwhile, `ahead_step` bytes for each step.
template <typename Kind, std::size_t rows>
void tile(const typename Kind::Product& product, std::size_t first_row, std::size_t column, const char* ahead,
          std::size_t ahead_step) noexcept {
  constexpr std::size_t lanes = Kind::Vectors::lanes, depth = Kind::depth;
  const std::size_t column_in_panel = column % panel_columns;
  const auto* weights = product.weights + (column - column_in_panel) * product.inner + column_in_panel * depth;
  const auto* row = product.rows + first_row * product.row_stride;
  typename Kind::Sum left[rows], right[rows];
#pragma GCC unroll 14
  for (std::size_t i = 0; i < rows; ++i) left[i] = right[i] = typename Kind::Sum{};
#pragma GCC unroll 1
  for (std::size_t k = 0; k < product.inner; k += depth) {
    // Where one tile fetches all of it, these are two lines.
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + ahead_step / 2);
    ahead += ahead_step;
    step<Kind, 0>(left, right, row, product.row_stride, weights);
    if constexpr (Kind::passes == 2) step<Kind, 1>(left, right, row, product.row_stride, weights);
    row += depth;
    weights += panel_columns * depth;
  }
  store<Kind>(product, first_row, column, left);
  store<Kind>(product, first_row, column + lanes, right);
}

/// The tiles of one row, of two, and so on.
template <typename Kind, std::size_t... rows>
constexpr auto tiles_of(std::index_sequence<rows...> /*each less one*/) noexcept {
  using Tile = void (*)(const typename Kind::Product&, std::size_t, std::size_t, const char*, std::size_t) noexcept;
  return std::array<Tile, sizeof...(rows)>{tile<Kind, rows + 1>...};
}

// Rows are shared out evenly: where 14 are the most, 16 are 8 and 8, not 14 and 2.
template <typename Kind>
void product_of(const typename Kind::Product& product) noexcept {
  static constexpr auto tiles = tiles_of<Kind>(std::make_index_sequence<Kind::max_rows>());
  constexpr std::size_t columns = 2 * Kind::Vectors::lanes, size = sizeof *product.weights;
  const std::size_t count = (product.row_count + Kind::max_rows - 1) / Kind::max_rows;
  if (count == 0) return;
  // The next panel is fetched while this one is multiplied, a part of it in each tile.
  const std::size_t parts = count * panel_columns / columns, panel_bytes = product.inner * panel_columns * size;
  const std::size_t ahead_step = (Kind::depth * panel_columns * size + parts - 1) / parts;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    const auto* next = reinterpret_cast<const char*>(product.weights) + (panel + 1) * panel_bytes;
    std::size_t part = 0;
    for (std::size_t column = panel * panel_columns; column < (panel + 1) * panel_columns; column += columns) {
      std::size_t row = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t end = product.row_count * (i + 1) / count;
        tiles[end - row - 1](product, row, column, next + panel_bytes * part++ / parts, ahead_step);
        row = end;
      }
    }
  }
}

/// A table of these products, and of rows as the compiler makes them.
template <typename Floats, typename Bfloat16s, typename Bytes>
constexpr Kernels kernels_of(std::string_view name, bool (*can_run)() noexcept) noexcept {
  Kernels kernels{};
  kernels.name = name;
  kernels.can_run = can_run;
  kernels.float_product = product_of<Floats>;
  kernels.bfloat16_product = product_of<Bfloat16s>;
  kernels.byte_product = product_of<Bytes>;
  return with_row_operations(kernels);
}

}  // namespace
}  // namespace gpux_cpu
