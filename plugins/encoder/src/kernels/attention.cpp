#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace gpux_encoder {
namespace {

// Softmax goes through so many scores at once; a row of them is filled up to a multiple.
constexpr std::size_t score_step = 16;
// So far below the others that it counts for nothing.
constexpr float no_score = -std::numeric_limits<float>::infinity();

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

// What is beyond `width` is 0.
void pack(const Head<float>& head, float* packed) {
  for (std::size_t column = 0; column < head.width; column += panel_columns) {
    const std::size_t columns = std::min(panel_columns, head.width - column);
    for (std::size_t row = 0; row < head.key_count; ++row, packed += panel_columns) {
      std::copy_n(head.values + row * head.stride + column, columns, packed);
      std::fill(packed + columns, packed + panel_columns, 0.0F);
    }
  }
}

// Two rows at a time, their elements side by side; beyond the last row and `width` is 0.
void pack(const Head<std::uint16_t>& head, std::uint32_t* packed) {
  for (std::size_t column = 0; column < head.width; column += panel_columns) {
    const std::size_t columns = std::min(panel_columns, head.width - column);
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

// The scores' shares of their row, in place.
template <typename Element>
void to_shares(const Kernels& kernels, const Head<Element>& head, const Relative& relative, float* scores,
               std::size_t stride) {
  for (std::size_t query = 0; query < head.query_count; ++query) {
    float* const row = scores + query * stride;
    float scale = head.scale;
    const HiddenKeys* const hidden = head.hidden_keys;
    const std::size_t end = rounded_up(head.key_count, score_step);
    if (hidden != nullptr && std::isinf(hidden->score)) {
      // Of infinities no shares come; what would be no numbers is put in at the end.
      std::fill_n(row, end, 0.0F);
      continue;
    }
    if (relative.values != nullptr || hidden != nullptr || scale < 0) {
      const float* const added =
          relative.values == nullptr ? nullptr : relative.values + relative.place[query] * relative.places;
      for (std::size_t key = 0; key < head.key_count; ++key) {
        row[key] = row[key] * scale + (added == nullptr ? 0 : added[relative.place[key]]);
        if (hidden != nullptr) row[key] = hidden->replaces ? hidden->score : row[key] + hidden->score;
      }
      scale = 1;
    }
    std::fill(row + head.key_count, row + end, no_score);
    kernels.softmax(row, end, scale);
  }
}

// Whole panels are written: where a head has less, beside it is the next head.
template <typename Element, typename Multiply>
void write(const Head<Element>& head, AttentionRoom& room, const Multiply& multiply) {
  const std::size_t stride = panels_of(head.width) * panel_columns;
  if (head.width == stride) {
    multiply(head.out, head.out_stride);
    return;
  }
  float* const mixed = room.mixed.of(head.query_count * stride);
  multiply(mixed, stride);
  for (std::size_t row = 0; row < head.query_count; ++row) {
    std::copy_n(mixed + row * stride, head.width, head.out + row * head.out_stride);
  }
}

}  // namespace

void attend(const Kernels& kernels, const Head<float>& head, const Relative& relative, AttentionRoom& room) {
  const std::size_t panels = panels_of(head.key_count), stride = panels * panel_columns;
  float* const keys = room.keys.of(stride * head.width);
  float* const values = room.values.of(panels_of(head.width) * panel_columns * head.key_count);
  float* const scores = room.scores.of(head.query_count * stride);
  pack_as_columns(head.keys, head.stride * sizeof(float), head.key_count, head.width, keys);
  pack(head, values);
  kernels.float_product(
      {head.queries, head.stride, head.query_count, head.width, keys, nullptr, scores, stride, 0, panels});
  to_shares(kernels, head, relative, scores, stride);
  write(head, room, [&](float* out, std::size_t out_stride) {
    kernels.float_product(
        {scores, stride, head.query_count, head.key_count, values, nullptr, out, out_stride, 0, panels_of(head.width)});
  });
}

void attend(const Kernels& kernels, const Head<std::uint16_t>& head, const Relative& relative, AttentionRoom& room) {
  const std::size_t panels = panels_of(head.key_count), stride = panels * panel_columns;
  const std::size_t key_count = rounded_up(head.key_count, bfloat16_depth);
  std::uint32_t* const keys = room.key_pairs.of(stride * head.width / bfloat16_depth);
  std::uint32_t* const values = room.value_pairs.of(panels_of(head.width) * panel_columns * key_count / bfloat16_depth);
  float* const scores = room.scores.of(head.query_count * stride);
  std::uint16_t* const shares = room.shares.of(head.query_count * stride);
  pack_as_columns(head.keys, head.stride * sizeof(std::uint16_t), head.key_count, head.width / bfloat16_depth, keys);
  pack(head, values);
  const auto bfloat16s = [](const std::uint32_t* pairs) { return reinterpret_cast<const std::uint16_t*>(pairs); };
  kernels.bfloat16_product(
      {head.queries, head.stride, head.query_count, head.width, bfloat16s(keys), nullptr, scores, stride, 0, panels});
  to_shares(kernels, head, relative, scores, stride);
  for (std::size_t row = 0; row < head.query_count; ++row) {
    kernels.to_bfloat16(scores + row * stride, rounded_up(head.key_count, score_step), shares + row * stride);
  }
  write(head, room, [&](float* out, std::size_t out_stride) {
    kernels.bfloat16_product({shares, stride, head.query_count, key_count, bfloat16s(values), nullptr, out, out_stride,
                              0, panels_of(head.width)});
  });
}

}  // namespace gpux_encoder
