#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace gpux_encoder {
namespace {

// Softmax takes so many scores at a time; a row of scores is padded to a multiple.
constexpr std::size_t softmax_step = 16;
// Its probability is 0.
constexpr float masked_score = -std::numeric_limits<float>::infinity();

std::size_t rounded_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// Rows become the columns of packed panels, a unit being a float or two bfloat16s; what is beyond the last row is 0.
template <typename Unit>
void pack_as_columns(const void* rows, std::size_t stride_bytes, std::size_t count, std::size_t units, Unit* packed) {
  const std::size_t panel = units * panel_columns;
  std::fill_n(packed + (panels_of(count) - 1) * panel, panel, Unit{});
  for (std::size_t row = 0; row < count; ++row) {
    const char* const from = static_cast<const char*>(rows) + row * stride_bytes;
    Unit* const to = packed + row / panel_columns * panel + row % panel_columns;
    for (std::size_t i = 0; i < units; ++i) std::memcpy(to + i * panel_columns, from + i * sizeof(Unit), sizeof(Unit));
  }
}

// Columns beyond `head_size` are 0.
void pack(const AttentionHead<float>& head, float* packed) {
  for (std::size_t column = 0; column < head.head_size; column += panel_columns) {
    const std::size_t columns = std::min(panel_columns, head.head_size - column);
    for (std::size_t row = 0; row < head.key_count; ++row, packed += panel_columns) {
      std::copy_n(head.values + row * head.stride + column, columns, packed);
      std::fill(packed + columns, packed + panel_columns, 0.0F);
    }
  }
}

// Two rows at a time, their elements side by side; beyond the last row and `head_size` is 0.
void pack(const AttentionHead<std::uint16_t>& head, std::uint32_t* packed) {
  for (std::size_t column = 0; column < head.head_size; column += panel_columns) {
    const std::size_t columns = std::min(panel_columns, head.head_size - column);
    for (std::size_t row = 0; row < head.key_count; row += 2, packed += panel_columns) {
      const std::uint16_t* const even = head.values + row * head.stride + column;
      const std::uint16_t* const odd = even + head.stride;
      if (row + 1 < head.key_count) {
        for (std::size_t i = 0; i < columns; ++i) packed[i] = even[i] | static_cast<std::uint32_t>(odd[i]) << 16;
      } else {
        for (std::size_t i = 0; i < columns; ++i) packed[i] = even[i];
      }
      std::fill(packed + columns, packed + panel_columns, 0U);
    }
  }
}

// Softmax of each row of scores, in place.
template <typename Element>
void to_probabilities(const Kernels& kernels, const AttentionHead<Element>& head, const PositionBias& position_bias,
                      float* scores, std::size_t stride) {
  for (std::size_t query = 0; query < head.query_count; ++query) {
    float* const row = scores + query * stride;
    float scale = head.scale;
    const MaskedKeys* const masked_keys = head.masked_keys;
    const std::size_t end = rounded_up(head.key_count, softmax_step);
    if (masked_keys != nullptr && std::isinf(masked_keys->score)) {
      // The softmax of infinities is NaN, which the forward pass writes at the end.
      std::fill_n(row, end, 0.0F);
      continue;
    }
    if (position_bias.values != nullptr || masked_keys != nullptr || scale < 0) {
      const float* const added = position_bias.values == nullptr ? nullptr
                                                                 : position_bias.values + position_bias.max_positions -
                                                                       1 - position_bias.positions[query];
      for (std::size_t key = 0; key < head.key_count; ++key) {
        row[key] = row[key] * scale + (added == nullptr ? 0 : added[position_bias.positions[key]]);
        if (masked_keys != nullptr)
          row[key] = masked_keys->replaces ? masked_keys->score : row[key] + masked_keys->score;
      }
      scale = 1;
    }
    std::fill(row + head.key_count, row + end, masked_score);
    kernels.softmax(row, end, scale);
  }
}

// The kernels write whole panels. A narrower head goes through scratch memory, because the next head follows it.
template <typename Element, typename Multiply>
void write(const AttentionHead<Element>& head, AttentionScratch& scratch, const Multiply& multiply) {
  const std::size_t stride = panels_of(head.head_size) * panel_columns;
  if (head.head_size == stride) {
    multiply(head.out, head.out_stride);
    return;
  }
  float* const context = scratch.context.get(head.query_count * stride);
  multiply(context, stride);
  for (std::size_t row = 0; row < head.query_count; ++row) {
    std::copy_n(context + row * stride, head.head_size, head.out + row * head.out_stride);
  }
}

}  // namespace

void attend(const Kernels& kernels, const AttentionHead<float>& head, const PositionBias& position_bias,
            AttentionScratch& scratch) {
  const std::size_t panels = panels_of(head.key_count), stride = panels * panel_columns;
  float* const keys = scratch.keys.get(stride * head.head_size);
  float* const values = scratch.values.get(panels_of(head.head_size) * panel_columns * head.key_count);
  float* const scores = scratch.scores.get(head.query_count * stride);
  pack_as_columns(head.keys, head.stride * sizeof(float), head.key_count, head.head_size, keys);
  pack(head, values);
  kernels.float_product(
      {head.queries, head.stride, head.query_count, head.head_size, keys, nullptr, scores, stride, 0, panels});
  to_probabilities(kernels, head, position_bias, scores, stride);
  write(head, scratch, [&](float* out, std::size_t out_stride) {
    kernels.float_product({scores, stride, head.query_count, head.key_count, values, nullptr, out, out_stride, 0,
                           panels_of(head.head_size)});
  });
}

void attend(const Kernels& kernels, const AttentionHead<std::uint16_t>& head, const PositionBias& position_bias,
            AttentionScratch& scratch) {
  const std::size_t panels = panels_of(head.key_count), stride = panels * panel_columns;
  const std::size_t key_count = rounded_up(head.key_count, bfloat16_depth);
  std::uint32_t* const keys = scratch.key_pairs.get(stride * head.head_size / bfloat16_depth);
  std::uint32_t* const values =
      scratch.value_pairs.get(panels_of(head.head_size) * panel_columns * key_count / bfloat16_depth);
  float* const scores = scratch.scores.get(head.query_count * stride);
  std::uint16_t* const probabilities = scratch.probabilities.get(head.query_count * stride);
  pack_as_columns(head.keys, head.stride * sizeof(std::uint16_t), head.key_count, head.head_size / bfloat16_depth,
                  keys);
  pack(head, values);
  const auto bfloat16s = [](const std::uint32_t* pairs) { return reinterpret_cast<const std::uint16_t*>(pairs); };
  kernels.bfloat16_product({head.queries, head.stride, head.query_count, head.head_size, bfloat16s(keys), nullptr,
                            scores, stride, 0, panels});
  to_probabilities(kernels, head, position_bias, scores, stride);
  for (std::size_t row = 0; row < head.query_count; ++row) {
    kernels.to_bfloat16(scores + row * stride, rounded_up(head.key_count, softmax_step), probabilities + row * stride);
  }
  write(head, scratch, [&](float* out, std::size_t out_stride) {
    kernels.bfloat16_product({probabilities, stride, head.query_count, key_count, bfloat16s(values), nullptr, out,
                              out_stride, 0, panels_of(head.head_size)});
  });
}

}  // namespace gpux_encoder
