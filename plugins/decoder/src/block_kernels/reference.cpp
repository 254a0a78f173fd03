// The same in plain loops: what the others are tested against, and what runs where none of them does.
#include "block_kernels/block_kernels.h"
#include "block_kernels/row_operations.h"

namespace gpux_cpu::decoder {
namespace {

template <std::size_t bits>
std::int32_t weight_of(const std::uint8_t* panel, std::size_t inner, std::size_t column) noexcept {
  if constexpr (bits == 8) {
    return panel[(inner / 4 * panel_columns + column) * 4 + inner % 4];
  } else {
    const std::uint8_t both = panel[(inner / 8 * panel_columns + column) * 4 + inner % 4];
    return inner % 8 < 4 ? both & 15 : both >> 4;
  }
}

template <std::size_t bits>
void block_product(const BlockProduct& product) noexcept {
  const BlockRows& rows = product.rows;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    const std::uint8_t* const weights = product.weights + panel * rows.stride() * panel_columns * bits / 8;
    for (std::size_t row = 0; row < rows.count; ++row) {
      for (std::size_t column = 0; column < panel_columns; ++column) {
        float sum = 0;
        for (std::size_t block = 0; block < rows.blocks; ++block) {
          const std::size_t scale = (panel * rows.blocks + block) * panel_columns + column;
          const std::int32_t zero_point = product.zero_points == nullptr ? 1 << (bits - 1) : product.zero_points[scale];
          std::int32_t dot = 0;
          for (std::size_t k = block * rows.block_size; k < (block + 1) * rows.block_size; ++k) {
            dot += rows.bytes[row * rows.stride() + k] * (weight_of<bits>(weights, k, column) - zero_point);
          }
          sum = __builtin_fmaf(static_cast<float>(dot) * product.weight_scale[scale],
                               rows.scale[row * rows.blocks + block], sum);
        }
        if (product.bias != nullptr) sum += product.bias[panel * panel_columns + column];
        product.out[row * product.out_stride + (panel - product.first_panel) * panel_columns + column] = sum;
      }
    }
  }
}

float of_half(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000U) << 16, exponent = half >> 10 & 31U, fraction = half & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t widened = exponent == 31 ? 255 : exponent + 112;
  return __builtin_bit_cast(float, sign | widened << 23 | fraction << 13);
}

void float_product(const FloatProduct& product) noexcept {
  for (std::size_t row = 0; row < product.row_count; ++row) {
    float* const out = product.out + row * product.out_stride;
    for (std::size_t column = 0; column < product.columns; ++column) {
      float sum = product.factors == nullptr ? 0 : out[column] * product.factors[row];
      for (std::size_t k = 0; k < product.inner; ++k) {
        const std::size_t at = k * product.value_stride + column;
        const float value = product.half_values != nullptr ? of_half(product.half_values[at]) : product.values[at];
        sum = __builtin_fmaf(product.rows[row * product.row_stride + k], value, sum);
      }
      out[column] = sum;
    }
  }
}

template <typename Key>
void pack_keys(const Key* keys, std::size_t count, std::size_t head_size, Key* packed) noexcept {
  for (std::size_t key = 0; key < panels_of(count) * panel_columns; ++key) {
    Key* const to = packed + key / panel_columns * panel_columns * head_size + key % panel_columns;
    for (std::size_t element = 0; element < head_size; ++element) {
      to[element * panel_columns] = key < count ? keys[key * head_size + element] : Key{};
    }
  }
}

// To the nearest, ties to even.
std::uint16_t half_of(float value) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x38800000) {
    // Adding 0.5 leaves what is rounded to the step of the smallest halves.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, sum) - 0x3F000000));
  }
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13));
}

void to_half(const float* values, std::size_t count, std::uint16_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = half_of(values[i]);
}

void from_half(const std::uint16_t* values, std::size_t count, float* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = of_half(values[i]);
}

bool can_run() noexcept {
  return true;
}

}  // namespace

extern const BlockKernels reference_block_kernels;
const BlockKernels reference_block_kernels{
    .name = "reference",
    .can_run = can_run,
    .product_of_4_bits = block_product<4>,
    .product_of_8_bits = block_product<8>,
    .quantize = quantize_row,
    .float_product = float_product,
    .pack_keys = pack_keys<float>,
    .pack_half_keys = pack_keys<std::uint16_t>,
    .softmax = softmax_block,
    .to_half = to_half,
    .from_half = from_half,
};

}  // namespace gpux_cpu::decoder
