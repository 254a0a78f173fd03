#include "decoder/block_linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/large_pages.h"

namespace gpux_cpu::decoder {
namespace {

/// An array in large pages that is still being filled.
template <typename Element>
struct LargeArray {
  explicit LargeArray(std::size_t count) : count(count) {
    if (count == 0) return;
    memory = allocate_in_large_pages(count * sizeof(Element));
    data = reinterpret_cast<Element*>(memory.get());
  }

  [[nodiscard]] SharedArray<Element> finished() const {
    return SharedArray<Element>(std::span<const Element>(data, count), memory);
  }

  std::size_t count;
  std::shared_ptr<std::byte> memory;
  Element* data = nullptr;
};

// The elements of a column, unpacked to bytes.
void unpack(const std::uint8_t* values, std::size_t bits, std::size_t count, std::uint8_t* out) {
  if (bits == 8) {
    std::copy_n(values, count, out);
    return;
  }
  for (std::size_t i = 0; i < count; i += 2) {
    out[i] = values[i / 2] & 15;
    out[i + 1] = values[i / 2] >> 4;
  }
}

// Columns of a panel, [32, padded inner] of bytes, as the kernels read them.
void pack_panel(const std::uint8_t* columns, std::size_t bits, std::size_t padded_inner, std::uint8_t* out) {
  const std::size_t depth = 32 / bits;
  for (std::size_t k = 0; k < padded_inner; k += depth) {
    for (std::size_t column = 0; column < panel_columns; ++column, out += 4) {
      const std::uint8_t* const from = columns + column * padded_inner + k;
      for (std::size_t i = 0; i < 4; ++i) {
        out[i] = bits == 8 ? from[i] : static_cast<std::uint8_t>(from[i] | from[i + 4] << 4);
      }
    }
  }
}

std::uint8_t zero_point_of(const QuantizedColumns& part, std::size_t column, std::size_t block) {
  if (part.zero_points == nullptr) return static_cast<std::uint8_t>(1U << (part.bits - 1));
  if (part.bits == 8) return part.zero_points[column * part.blocks() + block];
  const std::uint8_t both = part.zero_points[column * ((part.blocks() + 1) / 2) + block / 2];
  return block % 2 == 0 ? both & 15 : both >> 4;
}

}  // namespace

QuantizedMatrix quantize(const float* values, std::size_t inner, std::size_t columns, bool by_rows,
                         std::size_t block_size) {
  QuantizedMatrix made{.block_size = block_size, .inner = inner, .column_count = columns, .values = {}, .scales = {}};
  const std::size_t blocks = made.columns().blocks();
  made.values.assign(columns * blocks * block_size, 128);
  made.scales.resize(columns * blocks);
  // A block of every column after the other: columns of a row are next to each other, in one of the two orders.
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = block * block_size, last = std::min(first + block_size, inner);
    for (std::size_t column = 0; column < columns; ++column) {
      const auto at = [&](std::size_t k) {
        return by_rows ? values[k * columns + column] : values[column * inner + k];
      };
      float largest = 0;
      bool is_finite = true;
      for (std::size_t k = first; k < last; ++k) {
        is_finite = is_finite && std::isfinite(at(k));
        largest = std::max(largest, std::abs(at(k)));
      }
      const float scale = largest > 0 ? largest / 127.0F : 1.0F;
      // What is no number stays none.
      made.scales[column * blocks + block] = is_finite ? scale : std::numeric_limits<float>::quiet_NaN();
      if (!is_finite) continue;
      for (std::size_t k = first; k < last; ++k) {
        const long step = std::clamp(std::lrint(at(k) / scale), -127L, 127L);
        made.values[column * blocks * block_size + k] = static_cast<std::uint8_t>(step + 128);
      }
    }
  }
  return made;
}

BlockLinear::BlockLinear(std::span<const QuantizedColumns> parts, std::span<const float> bias)
    : bits_(parts.front().bits),
      block_size_(parts.front().block_size),
      inner_(parts.front().inner),
      blocks_(parts.front().blocks()) {
  bool has_zero_points = false;
  std::vector<std::pair<const QuantizedColumns*, std::size_t>> columns;
  for (const QuantizedColumns& part : parts) {
    has_zero_points = has_zero_points || part.zero_points != nullptr;
    for (std::size_t column = 0; column < part.columns; ++column) columns.emplace_back(&part, column);
  }
  columns_ = columns.size();
  const std::size_t padded_inner = blocks_ * block_size_, padded_columns = panels() * panel_columns;
  LargeArray<std::uint8_t> weights(padded_columns * padded_inner * bits_ / 8);
  LargeArray<float> scales(padded_columns * blocks_);
  LargeArray<std::uint8_t> zero_points(has_zero_points ? padded_columns * blocks_ : 0);
  std::vector<std::uint8_t> unpacked(panel_columns * padded_inner);
  for (std::size_t panel = 0; panel < panels(); ++panel) {
    // The columns that fill it up have the scale 0.
    std::ranges::fill(unpacked, std::uint8_t{0});
    for (std::size_t i = 0; i < panel_columns; ++i) {
      const std::size_t index = panel * panel_columns + i;
      const bool is_own = index < columns_;
      if (is_own) {
        const auto [part, column] = columns[index];
        unpack(part->values + column * padded_inner * bits_ / 8, bits_, padded_inner,
               unpacked.data() + i * padded_inner);
      }
      for (std::size_t block = 0; block < blocks_; ++block) {
        const std::size_t to = (panel * blocks_ + block) * panel_columns + i;
        scales.data[to] = is_own ? columns[index].first->scales[columns[index].second * blocks_ + block] : 0;
        if (has_zero_points) {
          zero_points.data[to] = is_own ? zero_point_of(*columns[index].first, columns[index].second, block) : 0;
        }
      }
    }
    pack_panel(unpacked.data(), bits_, padded_inner, weights.data + panel * panel_columns * padded_inner * bits_ / 8);
  }
  weights_ = weights.finished();
  scales_ = scales.finished();
  zero_points_ = zero_points.finished();
  if (!bias.empty()) {
    std::vector<float> padded(padded_columns);
    std::ranges::copy(bias, padded.begin());
    bias_ = std::move(padded);
  }
}

std::size_t BlockLinear::bytes() const noexcept {
  return weights_.size() + zero_points_.size() + scales_.size() * sizeof(float);
}

void BlockLinear::multiply(const BlockKernels& kernels, const BlockRows& rows, std::size_t first_panel,
                           std::size_t last_panel, float* out, std::size_t out_stride) const noexcept {
  const auto product = bits_ == 4 ? kernels.product_of_4_bits : kernels.product_of_8_bits;
  product({.rows = rows,
           .weights = weights_.data(),
           .weight_scale = scales_.data(),
           .zero_points = zero_points_.empty() ? nullptr : zero_points_.data(),
           .bias = bias_.empty() ? nullptr : bias_.data(),
           .out = out,
           .out_stride = out_stride,
           .first_panel = first_panel,
           .last_panel = last_panel});
}

void BlockLinear::read_column(std::size_t column, float* out) const noexcept {
  const std::size_t panel = column / panel_columns, in_panel = column % panel_columns, depth = 32 / bits_;
  const std::uint8_t* const weights = weights_.data() + panel * panel_columns * blocks_ * block_size_ * bits_ / 8;
  for (std::size_t k = 0; k < inner_; ++k) {
    const std::uint8_t byte = weights[(k / depth * panel_columns + in_panel) * 4 + k % 4];
    const int value = bits_ == 8 ? byte : k % 8 < 4 ? byte & 15 : byte >> 4;
    const std::size_t block = (panel * blocks_ + k / block_size_) * panel_columns + in_panel;
    const int zero_point = zero_points_.empty() ? 1 << (bits_ - 1) : zero_points_.data()[block];
    out[k] = static_cast<float>(value - zero_point) * scales_.data()[block];
  }
}

}  // namespace gpux_cpu::decoder
