#include "decoder/small_float_linear.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "block_kernels/half.h"
#include "kernels/large_pages.h"

namespace gpux_cpu::decoder {
namespace {

std::uint16_t bfloat16_of(float value) noexcept {
  return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, value) >> 16);
}

bool is_same(float a, float b) noexcept {
  return __builtin_bit_cast(std::uint32_t, a) == __builtin_bit_cast(std::uint32_t, b);
}

template <typename Test>
bool all_are(std::span<const PlainWeights> parts, const Test& test) {
  return std::ranges::all_of(parts, [&](const PlainWeights& part) {
    return std::all_of(part.values, part.values + part.inner * part.columns, test);
  });
}

}  // namespace

std::optional<SmallFloat> small_float_of(std::span<const PlainWeights> parts) noexcept {
  if (all_are(parts, [](float value) { return is_same(float_of_bfloat16(bfloat16_of(value)), value); })) {
    return SmallFloat::bfloat16;
  }
  if (all_are(parts, [](float value) { return is_same(float_of_half(half_of(value)), value); })) {
    return SmallFloat::float16;
  }
  return std::nullopt;
}

template <typename Weights, typename Narrow>
void SmallFloatLinear::pack(std::span<const Weights> parts, std::span<const float> bias, const Narrow& narrow) {
  inner_ = parts.front().inner;
  for (const Weights& part : parts) columns_ += part.columns;
  const std::size_t count = panels_of(columns_) * panel_columns * inner_;
  std::shared_ptr<std::byte> memory = allocate_in_large_pages(count * sizeof(std::uint16_t));
  auto* const packed = reinterpret_cast<std::uint16_t*>(memory.get());
  std::fill_n(packed, count, std::uint16_t{0});
  std::size_t first = 0;
  for (const Weights& part : parts) {
    // In the order of what is written: panels of rows.
    for (std::size_t start = 0; start < part.columns; start += panel_columns) {
      const std::size_t end = std::min(start + panel_columns, part.columns);
      for (std::size_t k = 0; k < inner_; ++k) {
        for (std::size_t column = start; column < end; ++column) {
          const std::size_t place = first + column;
          packed[(place / panel_columns * inner_ + k) * panel_columns + place % panel_columns] =
              narrow(part.values[part.transposed ? column * inner_ + k : k * part.columns + column]);
        }
      }
    }
    first += part.columns;
  }
  weights_ = SharedArray<std::uint16_t>(std::span<const std::uint16_t>(packed, count), std::move(memory));
  if (bias.empty()) return;
  std::vector<float> all_bias(panels_of(columns_) * panel_columns);
  std::ranges::copy(bias, all_bias.begin());
  bias_ = std::move(all_bias);
}

SmallFloatLinear::SmallFloatLinear(SmallFloat type, std::span<const PlainWeights> parts, std::span<const float> bias)
    : type_(type) {
  if (type == SmallFloat::bfloat16) {
    pack(parts, bias, bfloat16_of);
  } else {
    pack(parts, bias, half_of);
  }
}

SmallFloatLinear::SmallFloatLinear(SmallFloat type, std::span<const SmallWeights> parts, std::span<const float> bias)
    : type_(type) {
  pack(parts, bias, [](std::uint16_t bits) { return bits; });
}

std::size_t SmallFloatLinear::bytes() const noexcept {
  return weights_.size() * sizeof(std::uint16_t) + bias_.size() * sizeof(float);
}

void SmallFloatLinear::multiply(const BlockKernels& kernels, const Linear::Rows& rows, std::size_t first_panel,
                                std::size_t last_panel, float* out, std::size_t out_stride) const noexcept {
  const std::size_t panel_elements = inner_ * panel_columns, panel_bytes = panel_elements * sizeof(std::uint16_t);
  for (std::size_t panel = first_panel; panel < last_panel; ++panel, out += panel_columns) {
    const std::uint16_t* const weights = weights_.data() + panel * panel_elements;
    kernels.float_product({.rows = rows.floats,
                           .row_stride = rows.float_stride,
                           .row_count = rows.count,
                           .inner = inner_,
                           .values = nullptr,
                           .half_values = type_ == SmallFloat::float16 ? weights : nullptr,
                           .bfloat16_values = type_ == SmallFloat::bfloat16 ? weights : nullptr,
                           .value_stride = panel_columns,
                           .factors = nullptr,
                           .out = out,
                           .out_stride = out_stride,
                           .columns = panel_columns,
                           .ahead = weights + panel_elements,
                           .ahead_bytes = panel_bytes});
    if (bias_.empty()) continue;
    const float* const bias = bias_.data() + panel * panel_columns;
    for (std::size_t row = 0; row < rows.count; ++row) {
      float* const own = out + row * out_stride;
      for (std::size_t i = 0; i < panel_columns; ++i) own[i] += bias[i];
    }
  }
}

void SmallFloatLinear::read_column(std::size_t column, float* out) const noexcept {
  const std::uint16_t* const from =
      weights_.data() + column / panel_columns * inner_ * panel_columns + column % panel_columns;
  for (std::size_t k = 0; k < inner_; ++k) {
    const std::uint16_t bits = from[k * panel_columns];
    out[k] = type_ == SmallFloat::bfloat16 ? float_of_bfloat16(bits) : float_of_half(bits);
  }
}

}  // namespace gpux_cpu::decoder
