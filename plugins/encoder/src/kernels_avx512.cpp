// AVX-512 with VNNI and BF16. A tile has up to 14 rows and the 32 columns of a panel: 28 sums, 2 registers of weights
// and one of the rows. The products are written as assembly, since GCC 12 moves such sums to memory and back otherwise.
#include <immintrin.h>

#include "kernels.h"
#include "row_operations.h"

namespace gpux_encoder {
namespace {

constexpr std::size_t most_rows = 14;
// So far ahead of what is multiplied weights are fetched.
constexpr std::size_t ahead_bytes = 2048;

bool can_run() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

// Four bytes, wherever they lie.
__m512i spread_of(const void* values) noexcept {
  std::int32_t bits = 0;
  __builtin_memcpy(&bits, values, sizeof bits);
  return _mm512_set1_epi32(bits);
}

struct Floats {
  using Product = FloatProduct;
  using Sum = __m512;
  static constexpr std::size_t depth = float_depth;

  static __m512 spread(const float* values) noexcept { return _mm512_set1_ps(*values); }

  static __m512 weights(const float* panel) noexcept { return _mm512_loadu_ps(panel); }

  static void add(__m512& sum, __m512 row, __m512 weights) noexcept {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
  }
};

struct Halves {
  using Product = HalfProduct;
  using Sum = __m512;
  static constexpr std::size_t depth = half_depth;

  static __m512i spread(const std::uint16_t* values) noexcept { return spread_of(values); }

  static __m512i weights(const std::uint16_t* panel) noexcept { return _mm512_loadu_si512(panel); }

  static void add(__m512& sum, __m512i row, __m512i weights) noexcept {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
  }
};

struct Bytes {
  using Product = ByteProduct;
  using Sum = __m512i;
  static constexpr std::size_t depth = byte_depth;

  static __m512i spread(const std::uint8_t* values) noexcept { return spread_of(values); }

  static __m512i weights(const std::int8_t* panel) noexcept { return _mm512_loadu_si512(panel); }

  static void add(__m512i& sum, __m512i row, __m512i weights) noexcept {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
  }
};

__m512 bias_of(const float* bias, std::size_t column) noexcept {
  return bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(bias + column);
}

template <typename Product>
void store(const Product& product, std::size_t row, std::size_t column, __m512 left, __m512 right) noexcept {
  float* out = product.out + row * product.out_stride + column;
  _mm512_storeu_ps(out, _mm512_add_ps(left, bias_of(product.bias, column)));
  _mm512_storeu_ps(out + 16, _mm512_add_ps(right, bias_of(product.bias, column + 16)));
}

__m512 dequantized(const ByteProduct& product, std::size_t row, std::size_t column, __m512i sum) noexcept {
  const __m512i zeros =
      _mm512_mullo_epi32(_mm512_set1_epi32(product.row_zero[row]), _mm512_loadu_si512(product.column_sum + column));
  const __m512 scale =
      _mm512_mul_ps(_mm512_set1_ps(product.row_scale[row]), _mm512_loadu_ps(product.column_scale + column));
  return _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_sub_epi32(sum, zeros)), scale);
}

void store(const ByteProduct& product, std::size_t row, std::size_t column, __m512i left, __m512i right) noexcept {
  store<ByteProduct>(product, row, column, dequantized(product, row, column, left),
                     dequantized(product, row, column + 16, right));
}

template <typename Kind, std::size_t rows>
void tile(const typename Kind::Product& product, std::size_t first_row, std::size_t panel) noexcept {
  using Sum = typename Kind::Sum;
  const std::size_t column = panel * panel_columns;
  const auto* weights = product.weights + column * product.inner;
  const auto* row = product.rows + first_row * product.row_stride;
  Sum left[rows], right[rows];
#pragma GCC unroll 14
  for (std::size_t i = 0; i < rows; ++i) left[i] = right[i] = Sum{};
#pragma GCC unroll 1
  for (std::size_t k = 0; k < product.inner; k += Kind::depth) {
    const auto weights_left = Kind::weights(weights);
    const auto weights_right = Kind::weights(weights + 16 * Kind::depth);
    _mm_prefetch(reinterpret_cast<const char*>(weights) + ahead_bytes, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(weights) + ahead_bytes + 64, _MM_HINT_T0);
#pragma GCC unroll 14
    for (std::size_t i = 0; i < rows; ++i) {
      const auto spread = Kind::spread(row + i * product.row_stride);
      Kind::add(left[i], spread, weights_left);
      Kind::add(right[i], spread, weights_right);
    }
    row += Kind::depth;
    weights += panel_columns * Kind::depth;
  }
#pragma GCC unroll 14
  for (std::size_t i = 0; i < rows; ++i) store(product, first_row + i, column, left[i], right[i]);
}

template <typename Kind>
using Tile = void (*)(const typename Kind::Product&, std::size_t, std::size_t) noexcept;

template <typename Kind>
constexpr Tile<Kind> tiles[most_rows + 1] = {nullptr,        tile<Kind, 1>,  tile<Kind, 2>,  tile<Kind, 3>,
                                             tile<Kind, 4>,  tile<Kind, 5>,  tile<Kind, 6>,  tile<Kind, 7>,
                                             tile<Kind, 8>,  tile<Kind, 9>,  tile<Kind, 10>, tile<Kind, 11>,
                                             tile<Kind, 12>, tile<Kind, 13>, tile<Kind, 14>};

// Rows are shared out evenly: 16 are 8 and 8, not 14 and 2.
template <typename Kind>
void product_of(const typename Kind::Product& product) noexcept {
  const std::size_t count = (product.row_count + most_rows - 1) / most_rows;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    std::size_t row = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t end = product.row_count * (i + 1) / count;
      tiles<Kind>[end - row](product, row, panel);
      row = end;
    }
  }
}

void to_half(const float* values, std::size_t count, std::uint16_t* out) noexcept {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(_mm512_loadu_ps(values + i))));
  }
  to_half_row(values + i, count - i, out + i);
}

}  // namespace

extern const Kernels avx512_kernels;
const Kernels avx512_kernels{.name = "avx512",
                             .can_run = can_run,
                             .float_product = product_of<Floats>,
                             .half_product = product_of<Halves>,
                             .byte_product = product_of<Bytes>,
                             .gelu = gelu_rows,
                             .softmax = softmax_row,
                             .layer_norm = layer_norm_row,
                             .to_half = to_half,
                             .to_bytes = to_bytes_row};

}  // namespace gpux_encoder
