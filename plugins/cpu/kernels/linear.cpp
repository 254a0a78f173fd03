#include "kernels/linear.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gpux_cpu {
namespace {

std::size_t depth_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return bfloat16_depth;
    case Precision::int8:
      return byte_depth;
    case Precision::fp32:
    case Precision::int8_bf16:
      break;
  }
  return float_depth;
}

// The index of an element: [panel][inner / depth][32][depth].
std::size_t packed_index(std::size_t row, std::size_t column, std::size_t padded_inner, std::size_t depth) {
  const std::size_t panel = column / panel_columns;
  return (panel * padded_inner + row / depth * depth) * panel_columns + column % panel_columns * depth + row % depth;
}

/// A column of the weights as they are given.
struct WeightColumn {
  const float* first = nullptr;
  std::size_t stride = 1;

  [[nodiscard]] float at(std::size_t row) const noexcept { return first[row * stride]; }
};

std::vector<WeightColumn> columns_of(std::span<const PlainWeights> parts) {
  std::vector<WeightColumn> columns;
  for (const PlainWeights& part : parts) {
    for (std::size_t column = 0; column < part.columns; ++column) {
      columns.push_back(part.transposed ? WeightColumn{part.values + column * part.inner, 1}
                                        : WeightColumn{part.values + column, part.columns});
    }
  }
  return columns;
}

// Of each column: the largest number is 127 steps.
void set_scales(std::span<const WeightColumn> columns, std::size_t rows, float* scales) {
  std::fill_n(scales, columns.size(), 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns.size(); ++column)
      scales[column] = std::max(scales[column], std::abs(columns[column].at(row)));
  }
  for (std::size_t column = 0; column < columns.size(); ++column)
    scales[column] = scales[column] > 0 ? scales[column] / 127.0F : 1.0F;
}

}  // namespace

std::size_t padded_inner(Precision precision, std::size_t inner) noexcept {
  const std::size_t depth = depth_of(precision);
  return (inner + depth - 1) / depth * depth;
}

Linear::Linear(Precision precision, std::span<const PlainWeights> parts, std::span<const float> bias)
    : precision_(precision), inner_(parts.front().inner) {
  if (precision == Precision::int8 && inner_ > max_byte_inner) {
    throw std::length_error("int8 weights have rows of " + std::to_string(inner_) + " elements; accepted: up to " +
                            std::to_string(max_byte_inner));
  }
  for (const PlainWeights& part : parts) columns_ += part.columns;
  const std::size_t depth = depth_of(precision);
  padded_inner_ = padded_inner(precision, inner_);
  const std::size_t packed = padded_inner_ * columns();
  std::vector<float> all_bias(columns()), floats, column_scale;
  std::vector<std::uint16_t> bfloat16s;
  std::vector<std::int8_t> bytes;
  std::vector<std::int32_t> column_sum;
  std::copy(bias.begin(), bias.end(), all_bias.begin());
  if (precision == Precision::fp32) floats.assign(packed, 0);
  if (precision == Precision::bf16) bfloat16s.assign(packed, 0);
  if (precision == Precision::int8) {
    bytes.assign(packed, 0);
    column_scale.assign(columns(), 0);
    column_sum.assign(columns(), 0);
  }
  const std::vector<WeightColumn> from = columns_of(parts);
  // Row after row of a panel: the columns of a row are next to each other, here or there.
  for (std::size_t first = 0; first < columns_; first += panel_columns) {
    const std::size_t last = std::min(first + panel_columns, columns_);
    if (precision == Precision::int8)
      set_scales(std::span(from).subspan(first, last - first), inner_, &column_scale[first]);
    for (std::size_t row = 0; row < inner_; ++row) {
      for (std::size_t column = first; column < last; ++column) {
        const std::size_t index = packed_index(row, column, padded_inner_, depth);
        const float value = from[column].at(row);
        if (precision == Precision::fp32) {
          floats[index] = value;
        } else if (precision == Precision::bf16) {
          const auto bits = __builtin_bit_cast(std::uint32_t, value);
          bfloat16s[index] = static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
        } else {
          const auto step = static_cast<std::int32_t>(std::lrint(value / column_scale[column]));
          bytes[index] = static_cast<std::int8_t>(step);
          column_sum[column] += step;
        }
      }
    }
  }
  bias_ = std::move(all_bias);
  floats_ = SharedArray<float>::in_large_pages(floats);
  bfloat16s_ = SharedArray<std::uint16_t>::in_large_pages(bfloat16s);
  bytes_ = SharedArray<std::int8_t>::in_large_pages(bytes);
  column_scale_ = std::move(column_scale);
  column_sum_ = std::move(column_sum);
}

std::size_t Linear::bytes() const noexcept {
  return floats_.size() * sizeof(float) + bfloat16s_.size() * sizeof(std::uint16_t) + bytes_.size() +
         (bias_.size() + column_scale_.size() + column_sum_.size()) * sizeof(float);
}

bool Linear::has_shape(Precision precision, std::size_t inner, std::size_t columns) const noexcept {
  if (precision_ != precision || inner_ != inner || columns_ != columns) return false;
  if (padded_inner_ != padded_inner(precision, inner)) return false;
  if (precision == Precision::int8) {
    if (inner > max_byte_inner) return false;
    const std::int64_t most = std::int64_t{128} * static_cast<std::int64_t>(inner);
    const auto is_possible = [most](std::int64_t sum) { return sum >= -most && sum <= most; };
    if (!std::all_of(column_sum_.data(), column_sum_.data() + column_sum_.size(), is_possible)) return false;
  }
  const std::size_t all = padded_inner_ * this->columns(), columns_padded = this->columns();
  const auto has = [precision](Precision user, const auto& array, std::size_t count) {
    return array.size() == (precision == user ? count : 0);
  };
  return bias_.size() == columns_padded && has(Precision::fp32, floats_, all) &&
         has(Precision::bf16, bfloat16s_, all) && has(Precision::int8, bytes_, all) &&
         has(Precision::int8, column_scale_, columns_padded) && has(Precision::int8, column_sum_, columns_padded);
}

void Linear::convert(const Kernels& kernels, const Rows& rows, std::size_t first, std::size_t last) const noexcept {
  for (std::size_t row = first; row < last; ++row) {
    const float* const from = rows.floats + row * rows.float_stride;
    if (precision_ == Precision::bf16) {
      std::uint16_t* const to = rows.bfloat16s + row * padded_inner_;
      kernels.to_bfloat16(from, inner_, to);
      std::fill(to + inner_, to + padded_inner_, std::uint16_t{0});
    } else if (precision_ == Precision::int8) {
      std::uint8_t* const to = rows.bytes + row * padded_inner_;
      kernels.to_bytes(from, inner_, to, rows.scale[row], rows.zero[row]);
      // Its weights are 0, so that these have no effect.
      std::fill(to + inner_, to + padded_inner_, std::uint8_t{0});
    }
  }
}

Linear::Rows Linear::part_of(const Rows& rows, std::size_t first, std::size_t count) const noexcept {
  Rows part = rows;
  part.count = count;
  const auto skip = [first](auto*& pointer, std::size_t stride) {
    if (pointer != nullptr) pointer += first * stride;
  };
  skip(part.floats, rows.float_stride);
  skip(part.bfloat16s, padded_inner_);
  skip(part.bytes, padded_inner_);
  skip(part.scale, 1);
  skip(part.zero, 1);
  return part;
}

void Linear::multiply_part(const Kernels& kernels, const Rows& rows, std::size_t first_panel, std::size_t last_panel,
                           float* out, std::size_t out_stride) const noexcept {
  const std::size_t column = first_panel * panel_columns, panels = last_panel - first_panel;
  const std::size_t weights = column * padded_inner_;
  switch (precision_) {
    case Precision::fp32:
      kernels.float_product({rows.floats, rows.float_stride, rows.count, padded_inner_, floats_.data() + weights,
                             bias_.data() + column, out, out_stride, 0, panels});
      return;
    case Precision::bf16:
      kernels.bfloat16_product({rows.bfloat16s, padded_inner_, rows.count, padded_inner_, bfloat16s_.data() + weights,
                                bias_.data() + column, out, out_stride, 0, panels});
      return;
    case Precision::int8:
      kernels.byte_product({rows.bytes, padded_inner_, rows.count, padded_inner_, rows.scale, rows.zero,
                            bytes_.data() + weights, column_scale_.data() + column, column_sum_.data() + column,
                            bias_.data() + column, out, out_stride, 0, panels});
      return;
    case Precision::int8_bf16:
      return;
  }
}

void Linear::multiply(const Kernels& kernels, const Rows& rows, std::size_t first_panel, std::size_t last_panel,
                      float* out, std::size_t out_stride) const noexcept {
  multiply_part(kernels, rows, first_panel, last_panel, out + first_panel * panel_columns, out_stride);
}

void Linear::read_column(std::size_t column, float* out) const noexcept {
  for (std::size_t row = 0; row < inner_; ++row) {
    const std::size_t index = packed_index(row, column, padded_inner_, depth_of(precision_));
    switch (precision_) {
      case Precision::fp32:
        out[row] = floats_.data()[index];
        break;
      case Precision::bf16:
        out[row] = __builtin_bit_cast(float, static_cast<std::uint32_t>(bfloat16s_.data()[index]) << 16);
        break;
      case Precision::int8:
      case Precision::int8_bf16:
        out[row] = static_cast<float>(bytes_.data()[index]) * column_scale_.data()[column];
        break;
    }
  }
}

}  // namespace gpux_cpu
