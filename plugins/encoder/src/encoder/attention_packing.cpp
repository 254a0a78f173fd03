#include <algorithm>
#include <cstring>

#include "encoder/attention.h"

namespace gpux_cpu::encoder {
namespace {

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
void pack_values(const AttentionKeys<float>& keys, float* packed) {
  for (std::size_t column = 0; column < keys.head_size; column += panel_columns) {
    const std::size_t columns = std::min(panel_columns, keys.head_size - column);
    for (std::size_t row = 0; row < keys.count; ++row, packed += panel_columns) {
      std::copy_n(keys.values + row * keys.stride + column, columns, packed);
      std::fill(packed + columns, packed + panel_columns, 0.0F);
    }
  }
}

// Two rows at a time, their elements side by side; beyond the last row and `head_size` is 0.
void pack_values(const AttentionKeys<std::uint16_t>& keys, std::uint32_t* packed) {
  for (std::size_t column = 0; column < keys.head_size; column += panel_columns) {
    const std::size_t columns = std::min(panel_columns, keys.head_size - column);
    for (std::size_t row = 0; row < keys.count; row += 2, packed += panel_columns) {
      const std::uint16_t* const even = keys.values + row * keys.stride + column;
      const std::uint16_t* const odd = even + keys.stride;
      if (row + 1 < keys.count) {
        for (std::size_t i = 0; i < columns; ++i) packed[i] = even[i] | static_cast<std::uint32_t>(odd[i]) << 16;
      } else {
        for (std::size_t i = 0; i < columns; ++i) packed[i] = even[i];
      }
      std::fill(packed + columns, packed + panel_columns, 0U);
    }
  }
}

}  // namespace

void AttentionScratch::release_if_large() noexcept {
  for (ScratchBuffer<float>* buffer : {&keys, &values, &key_products}) buffer->release_if_large();
  key_pairs.release_if_large();
  value_pairs.release_if_large();
}

void pack(const AttentionKeys<float>& keys, AttentionScratch& scratch) {
  const std::size_t columns = panels_of(keys.count) * panel_columns;
  pack_as_columns(keys.keys, keys.stride * sizeof(float), keys.count, keys.head_size,
                  scratch.keys.get(columns * keys.head_size));
  pack_values(keys, scratch.values.get(panels_of(keys.head_size) * panel_columns * keys.count));
}

void pack(const AttentionKeys<std::uint16_t>& keys, AttentionScratch& scratch) {
  const std::size_t columns = panels_of(keys.count) * panel_columns, pairs = keys.head_size / bfloat16_depth;
  const std::size_t key_pairs = (keys.count + 1) / bfloat16_depth;
  pack_as_columns(keys.keys, keys.stride * sizeof(std::uint16_t), keys.count, pairs,
                  scratch.key_pairs.get(columns * pairs));
  pack_values(keys, scratch.value_pairs.get(panels_of(keys.head_size) * panel_columns * key_pairs));
}

std::vector<float> packed_columns(std::span<const float> rows, std::size_t head_size) {
  const std::size_t count = rows.size() / head_size;
  std::vector<float> packed(panels_of(count) * panel_columns * head_size);
  pack_as_columns(rows.data(), head_size * sizeof(float), count, head_size, packed.data());
  return packed;
}

std::vector<std::uint16_t> packed_columns(std::span<const std::uint16_t> rows, std::size_t head_size) {
  const std::size_t count = rows.size() / head_size, pairs = head_size / bfloat16_depth;
  std::vector<std::uint32_t> packed(panels_of(count) * panel_columns * pairs);
  pack_as_columns(rows.data(), head_size * sizeof(std::uint16_t), count, pairs, packed.data());
  std::vector<std::uint16_t> halves(2 * packed.size());
  std::memcpy(halves.data(), packed.data(), packed.size() * sizeof(std::uint32_t));
  return halves;
}

}  // namespace gpux_cpu::encoder
