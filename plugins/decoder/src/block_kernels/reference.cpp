// The same in plain loops: what the others are tested against, and what runs where none of them does.
#include "block_kernels/block_kernels.h"
#include "block_kernels/coded_rows.h"
#include "block_kernels/half.h"
#include "block_kernels/packed_weights.h"
#include "block_kernels/row_operations.h"

namespace gpux_cpu::decoder {
namespace {

float number_at(const BlockNumbers& numbers, std::size_t block, std::size_t column) noexcept {
  const std::size_t at = block * panel_columns + column;
  if (numbers.floats != nullptr) return numbers.floats[at];
  if (numbers.halves != nullptr) return float_of_half(numbers.halves[at]);
  return static_cast<float>(numbers.steps[at]) *
         numbers.step_size[(block >> numbers.step_shift) * panel_columns + column];
}

void block_product(const BlockProduct& product) noexcept {
  const BlockRows& rows = product.rows;
  for (std::size_t panel = product.first_panel; panel < product.last_panel; ++panel) {
    const std::uint8_t* const weights =
        product.weights + panel * rows.stride() * panel_columns * stored_bits(product.form) / 8;
    for (std::size_t row = 0; row < rows.count; ++row) {
      for (std::size_t column = 0; column < panel_columns; ++column) {
        float sum = 0;
        for (std::size_t block = 0; block < rows.blocks; ++block) {
          const std::size_t of_panel = panel * rows.blocks + block;
          const std::int32_t zero_point = product.zero_points == nullptr
                                              ? product.zero_point
                                              : product.zero_points[of_panel * panel_columns + column];
          std::int32_t dot = 0;
          for (std::size_t k = block * rows.block_size; k < (block + 1) * rows.block_size; ++k) {
            std::uint8_t weight = stored_weight(product.form, weights, k, column);
            if (product.form == WeightForm::coded_nibbles) weight = product.coded_values[weight];
            dot += rows.bytes[row * rows.stride() + k] * (weight - zero_point);
          }
          float term = static_cast<float>(dot) * number_at(product.weight_scale, of_panel, column);
          if (!product.minimums.empty()) {
            const auto negative_sum = static_cast<float>(rows.negative_sum[row * rows.blocks + block]);
            term = __builtin_fmaf(negative_sum, number_at(product.minimums, of_panel, column), term);
          }
          sum = __builtin_fmaf(term, rows.scale[row * rows.blocks + block], sum);
        }
        if (product.bias != nullptr) sum += product.bias[panel * panel_columns + column];
        product.out[row * product.out_stride + (panel - product.first_panel) * panel_columns + column] = sum;
      }
    }
  }
}

void float_product(const FloatProduct& product) noexcept {
  for (std::size_t row = 0; row < product.row_count; ++row) {
    float* const out = product.out + row * product.out_stride;
    for (std::size_t column = 0; column < product.columns; ++column) {
      float sum = product.factors == nullptr ? 0 : out[column] * product.factors[row];
      for (std::size_t k = 0; k < product.inner; ++k) {
        const std::size_t at = k * product.value_stride + column;
        const float value = product.bfloat16_values != nullptr ? float_of_bfloat16(product.bfloat16_values[at])
                            : product.half_values != nullptr   ? float_of_half(product.half_values[at])
                                                               : product.values[at];
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

void to_half(const float* values, std::size_t count, std::uint16_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = half_of(values[i]);
}

void from_half(const std::uint16_t* values, std::size_t count, float* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = float_of_half(values[i]);
}

bool can_run() noexcept {
  return true;
}

}  // namespace

extern const BlockKernels reference_block_kernels;
const BlockKernels reference_block_kernels{
    .name = "reference",
    .can_run = can_run,
    .block_products = {block_product, block_product, block_product, block_product, block_product},
    .quantize = quantize_row,
    .float_product = float_product,
    .pack_keys = pack_keys<float>,
    .pack_half_keys = pack_keys<std::uint16_t>,
    .softmax = softmax_block,
    .to_half = to_half,
    .from_half = from_half,
    .to_codes = to_codes,
    .from_codes = from_codes,
};

}  // namespace gpux_cpu::decoder
