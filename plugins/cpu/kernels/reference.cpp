// The same in plain loops: what the others are tested against, and what runs where none of them does.
#include "kernels/kernels.h"
#include "kernels/row_operations.h"

namespace gpux_cpu {
namespace {

float to_float(std::uint16_t bfloat16) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bfloat16) << 16);
}

// One row times one panel: the sum of `depth` products after the other.
template <std::size_t depth, typename Sum, typename Element, typename Weight, typename Multiply>
void add_up(const Element* row, const Weight* panel, std::size_t inner, Sum (&sums)[panel_columns],
            const Multiply& multiply) noexcept {
  for (Sum& sum : sums) sum = 0;
  for (std::size_t k = 0; k < inner; k += depth) {
    for (std::size_t column = 0; column < panel_columns; ++column) {
      for (std::size_t step = 0; step < depth; ++step) {
        sums[column] += multiply(row[k + step], panel[(k * panel_columns) + column * depth + step]);
      }
    }
  }
}

template <std::size_t depth, typename Product, typename Multiply>
void floating_product(const Product& product, const Multiply& multiply) noexcept {
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    const std::size_t column = panel * panel_columns;
    for (std::size_t row = 0; row < product.row_count; ++row) {
      float sums[panel_columns];
      add_up<depth>(product.rows + row * product.row_stride, product.weights + column * product.inner, product.inner,
                    sums, multiply);
      float* out = product.out + row * product.out_stride + column;
      for (std::size_t i = 0; i < panel_columns; ++i) {
        out[i] = sums[i] + (product.bias == nullptr ? 0 : product.bias[column + i]);
      }
    }
  }
}

void float_product(const FloatProduct& product) noexcept {
  floating_product<float_depth>(product, [](float a, float b) { return a * b; });
}

void bfloat16_product(const Bfloat16Product& product) noexcept {
  floating_product<bfloat16_depth>(product, [](std::uint16_t a, std::uint16_t b) { return to_float(a) * to_float(b); });
}

void byte_product(const ByteProduct& product) noexcept {
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    const std::size_t column = panel * panel_columns;
    for (std::size_t row = 0; row < product.row_count; ++row) {
      std::int32_t sums[panel_columns];
      add_up<byte_depth>(product.rows + row * product.row_stride, product.weights + column * product.inner,
                         product.inner, sums,
                         [](std::uint8_t a, std::int8_t b) { return static_cast<std::int32_t>(a) * b; });
      float* out = product.out + row * product.out_stride + column;
      for (std::size_t i = 0; i < panel_columns; ++i) {
        const std::int32_t sum = sums[i] - product.row_zero[row] * product.column_sum[column + i];
        out[i] = static_cast<float>(sum) * (product.row_scale[row] * product.column_scale[column + i]) +
                 (product.bias == nullptr ? 0 : product.bias[column + i]);
      }
    }
  }
}

bool can_run() noexcept {
  return true;
}

constexpr Kernels reference_table() noexcept {
  Kernels kernels{};
  kernels.name = "reference";
  kernels.can_run = can_run;
  kernels.float_product = float_product;
  kernels.bfloat16_product = bfloat16_product;
  kernels.byte_product = byte_product;
  return with_row_operations(kernels);
}

}  // namespace

extern const Kernels reference_kernels;
const Kernels reference_kernels = reference_table();

}  // namespace gpux_cpu
