#include "decoder/block_linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "block_kernels/packed_weights.h"
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

// Steps of a panel, each of `depth` elements of its columns: pack(elements of a column, its first byte of four).
template <typename Pack>
void pack_steps(std::span<const std::uint8_t> values, std::size_t depth, std::size_t step_bytes, std::uint8_t* out,
                const Pack& pack) {
  const std::size_t inner = values.size() / panel_columns;
  for (std::size_t k = 0; k < inner; k += depth, out += step_bytes) {
    for (std::size_t column = 0; column < panel_columns; ++column) {
      pack(values.data() + column * inner + k, out + column * 4);
    }
  }
}

// Columns of a panel, [32, padded inner] of bytes, as the kernels read them.
void pack_panel(WeightForm form, std::span<const std::uint8_t> values, std::uint8_t* out) {
  constexpr std::size_t row = panel_columns * 4;
  const auto pack_nibbles = [](const std::uint8_t* from, std::uint8_t* to) {
    for (std::size_t i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>((from[i] & 15) | (from[i + 4] & 15) << 4);
  };
  switch (form) {
    case WeightForm::nibbles:
    case WeightForm::coded_nibbles:
      return pack_steps(values, 8, row, out, pack_nibbles);
    case WeightForm::six_bits:
      return pack_steps(values, 16, 3 * row, out, [&](const std::uint8_t* from, std::uint8_t* to) {
        pack_nibbles(from, to);
        pack_nibbles(from + 8, to + row);
        for (std::size_t i = 0; i < 4; ++i) {
          to[2 * row + i] = static_cast<std::uint8_t>(from[i] >> 4 | from[i + 4] >> 4 << 2 | from[i + 8] >> 4 << 4 |
                                                      from[i + 12] >> 4 << 6);
        }
      });
    case WeightForm::small_bytes:
    case WeightForm::bytes:
      return pack_steps(values, 4, row, out,
                        [](const std::uint8_t* from, std::uint8_t* to) { std::copy_n(from, 4, to); });
  }
}

std::span<const std::uint8_t> bytes_of(const QuantizedColumns& part, std::size_t column) {
  const std::size_t count = part.blocks() * part.block_size * part.bits / 8;
  return {part.values + column * count, count};
}

// The elements of a column as they are stored.
void write_stored(const QuantizedColumns& part, std::size_t column, const std::array<std::uint8_t, 256>& stored,
                  std::uint8_t* out) {
  const std::span<const std::uint8_t> bytes = bytes_of(part, column);
  if (part.bits == 8) {
    std::ranges::transform(bytes, out, [&](std::uint8_t value) { return stored[value]; });
    return;
  }
  for (const std::uint8_t both : bytes) {
    *out++ = both & 15;
    *out++ = both >> 4;
  }
}

std::uint8_t zero_point_of(const QuantizedColumns& part, std::size_t column, std::size_t block) {
  if (part.zero_points == nullptr) return static_cast<std::uint8_t>(1U << (part.bits - 1));
  if (part.bits == 8) return part.zero_points[column * part.blocks() + block];
  const std::uint8_t both = part.zero_points[column * ((part.blocks() + 1) / 2) + block / 2];
  return block % 2 == 0 ? both & 15 : both >> 4;
}

bool has_minimums(const QuantizedColumns& part) {
  return part.minimums != nullptr;
}

float minimum_of(const QuantizedColumns& part, std::size_t column, std::size_t block) {
  return has_minimums(part) ? part.minimums[block * part.columns + column] : 0;
}

// The minimum of the same elements with a zero point of 0; empty where it is no float32, or the elements would be
// rounded otherwise.
std::optional<float> minimum_from_zero(const QuantizedColumns& part, std::size_t column, std::size_t block) {
  const auto zero_point = static_cast<float>(zero_point_of(part, column, block));
  const float scale = part.scales[column * part.blocks() + block], offset = zero_point * scale;
  const float minimum = minimum_of(part, column, block), sum = minimum + offset;
  const auto is_float = [scale](float factor) {
    return static_cast<double>(factor) * static_cast<double>(scale) == static_cast<double>(factor * scale);
  };
  // Of all values, if of the largest one, which is odd.
  const auto largest = static_cast<float>((1U << part.bits) - 1);
  const bool is_exact = is_float(largest) && is_float(zero_point) && sum - offset == minimum && sum - minimum == offset;
  return is_exact ? std::optional(sum) : std::nullopt;
}

// Ascending.
std::vector<std::uint8_t> used_values(std::span<const std::pair<const QuantizedColumns*, std::size_t>> columns) {
  std::array<bool, 256> is_used{};
  for (const auto& [part, column] : columns) {
    for (const std::uint8_t value : bytes_of(*part, column)) is_used[value] = true;
  }
  std::vector<std::uint8_t> used;
  for (std::size_t value = 0; value < is_used.size(); ++value) {
    if (is_used[value]) used.push_back(static_cast<std::uint8_t>(value));
  }
  return used;
}

struct ByteForm {
  WeightForm form = WeightForm::bytes;
  int taken_away = 0;  // from each value, and from the zero point
};

// `is_middle`: the zero point of all is 128. What is taken away leaves one that is a power of two.
ByteForm form_of_bytes(std::span<const std::uint8_t> used, bool is_middle) {
  if (used.size() <= 16) return {WeightForm::coded_nibbles, 0};
  const int least = used.front(), most = used.back();
  if (is_middle && least >= 96 && most < 160) return {WeightForm::six_bits, 96};
  if (most < 64) return {WeightForm::six_bits, 0};
  if (is_middle && least >= 64 && most < 192) return {WeightForm::small_bytes, 64};
  return {most < 128 ? WeightForm::small_bytes : WeightForm::bytes, 0};
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

template <typename Number>
std::vector<float> BlockLinear::numbers_of(std::span<const Column> columns, const Number& number) const {
  std::vector<float> all(panels() * panel_columns * blocks_);
  for (std::size_t i = 0; i < columns_; ++i) {
    const auto& [part, column] = columns[i];
    for (std::size_t block = 0; block < blocks_; ++block) {
      all[(i / panel_columns * blocks_ + block) * panel_columns + i % panel_columns] = number(*part, column, block);
    }
  }
  return all;
}

BlockLinear::BlockLinear(std::span<const QuantizedColumns> parts, std::span<const float> bias)
    : block_size_(parts.front().block_size), inner_(parts.front().inner), blocks_(parts.front().blocks()) {
  std::vector<Column> columns;
  for (const QuantizedColumns& part : parts) {
    for (std::size_t column = 0; column < part.columns; ++column) columns.emplace_back(&part, column);
  }
  columns_ = columns.size();
  const std::optional<std::vector<float>> from_zero = minimums_from_zero(columns);
  if (!from_zero) set_zero_points(columns);
  std::array<std::uint8_t, 256> stored{};
  if (parts.front().bits == 8) stored = set_form_of_bytes(columns);
  const auto scale = [this](const QuantizedColumns& part, std::size_t column, std::size_t block) {
    return part.scales[column * blocks_ + block];
  };
  scales_ = PackedNumbers(numbers_of(columns, scale), blocks_, block_size_);
  if (std::ranges::any_of(parts, has_minimums)) {
    minimums_ = PackedNumbers(from_zero ? *from_zero : numbers_of(columns, minimum_of), blocks_, block_size_);
  }
  const std::size_t padded_inner = blocks_ * block_size_;
  LargeArray<std::uint8_t> weights(panels() * panel_bytes());
  std::vector<std::uint8_t> values(panel_columns * padded_inner);
  for (std::size_t panel = 0; panel < panels(); ++panel) {
    // The columns that fill it up have the scale 0.
    std::ranges::fill(values, std::uint8_t{0});
    for (std::size_t i = 0; i < panel_columns && panel * panel_columns + i < columns_; ++i) {
      const auto [part, column] = columns[panel * panel_columns + i];
      write_stored(*part, column, stored, values.data() + i * padded_inner);
    }
    pack_panel(form_, values, weights.data + panel * panel_bytes());
  }
  weights_ = weights.finished();
  if (!bias.empty()) {
    std::vector<float> padded(panels() * panel_columns);
    std::ranges::copy(bias, padded.begin());
    bias_ = std::move(padded);
  }
}

std::size_t BlockLinear::panel_bytes() const noexcept {
  return panel_columns * blocks_ * block_size_ * stored_bits(form_) / 8;
}

std::optional<std::vector<float>> BlockLinear::minimums_from_zero(std::span<const Column> columns) const {
  if (!std::ranges::all_of(columns, [](const Column& column) { return has_minimums(*column.first); })) return {};
  bool are_exact = true;
  std::vector<float> all =
      numbers_of(columns, [&are_exact](const QuantizedColumns& part, std::size_t column, std::size_t block) {
        const std::optional<float> minimum = minimum_from_zero(part, column, block);
        are_exact = are_exact && minimum.has_value();
        return minimum.value_or(0);
      });
  return are_exact ? std::optional(std::move(all)) : std::nullopt;
}

void BlockLinear::set_zero_points(std::span<const Column> columns) {
  std::vector<std::uint8_t> all(panels() * panel_columns * blocks_);
  for (std::size_t i = 0; i < panels() * panel_columns; ++i) {
    // A column that fills a panel up has those of the first.
    const auto [part, column] = i < columns_ ? columns[i] : columns.front();
    for (std::size_t block = 0; block < blocks_; ++block) {
      all[(i / panel_columns * blocks_ + block) * panel_columns + i % panel_columns] =
          zero_point_of(*part, column, block);
    }
  }
  zero_point_ = all.front();
  const bool is_uniform = std::ranges::all_of(all, [this](std::uint8_t point) { return point == zero_point_; });
  if (is_uniform && (zero_point_ & (zero_point_ - 1)) == 0) return;
  zero_points_ = SharedArray<std::uint8_t>::in_large_pages(all);
}

std::array<std::uint8_t, 256> BlockLinear::set_form_of_bytes(std::span<const Column> columns) {
  std::vector<std::uint8_t> used = used_values(columns);
  const bool is_middle = zero_points_.empty() && zero_point_ == 128;
  const ByteForm chosen = form_of_bytes(used, is_middle);
  form_ = chosen.form;
  if (chosen.taken_away != 0) zero_point_ = static_cast<std::uint8_t>(zero_point_ - chosen.taken_away);
  std::array<std::uint8_t, 256> stored{};
  const bool is_coded = form_ == WeightForm::coded_nibbles;
  for (std::size_t i = 0; i < used.size(); ++i) {
    stored[used[i]] = static_cast<std::uint8_t>(is_coded ? i : used[i] - chosen.taken_away);
  }
  if (is_coded) {
    used.resize(16);
    coded_values_ = std::move(used);
  }
  return stored;
}

WeightForm BlockLinear::form_of(const QuantizedColumns& part) {
  if (part.bits == 4) return WeightForm::nibbles;
  std::vector<Column> columns;
  for (std::size_t column = 0; column < part.columns; ++column) columns.emplace_back(&part, column);
  return form_of_bytes(used_values(columns), part.zero_points == nullptr).form;
}

std::size_t BlockLinear::bytes() const noexcept {
  return weights_.size() + zero_points_.size() + scales_.bytes() + minimums_.bytes();
}

void BlockLinear::multiply(const BlockKernels& kernels, const BlockRows& rows, std::size_t first_panel,
                           std::size_t last_panel, float* out, std::size_t out_stride) const noexcept {
  kernels.block_product({.rows = rows,
                         .form = form_,
                         .weights = weights_.data(),
                         .coded_values = coded_values_.data(),
                         .weight_scale = scales_.view(),
                         .minimums = minimums_.view(),
                         .zero_points = zero_points_.data(),
                         .zero_point = zero_point_,
                         .bias = bias_.empty() ? nullptr : bias_.data(),
                         .out = out,
                         .out_stride = out_stride,
                         .first_panel = first_panel,
                         .last_panel = last_panel});
}

void BlockLinear::read_column(std::size_t column, float* out) const noexcept {
  const std::size_t panel = column / panel_columns, in_panel = column % panel_columns;
  const std::uint8_t* const weights = weights_.data() + panel * panel_bytes();
  for (std::size_t k = 0; k < inner_; ++k) {
    const std::uint8_t code = stored_weight(form_, weights, k, in_panel);
    const int value = coded_values_.empty() ? code : coded_values_.data()[code];
    const std::size_t block = panel * blocks_ + k / block_size_;
    const int zero_point = zero_points_.empty() ? zero_point_ : zero_points_.data()[block * panel_columns + in_panel];
    out[k] = static_cast<float>(value - zero_point) * scales_.at(block, in_panel);
    if (!minimums_.empty()) out[k] -= minimums_.at(block, in_panel);
  }
}

}  // namespace gpux_cpu::decoder
