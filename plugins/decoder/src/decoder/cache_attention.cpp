#include "decoder/cache_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gpux_cpu::decoder {
namespace {

// A block of packed keys and one of values fit into the nearest cache.
constexpr std::size_t keys_per_block = 64;
static_assert(keys_per_span % keys_per_block == 0 && keys_per_block % panel_columns == 0);

// Rows that widen float16 as they multiply: more of them make up for widening it once for all.
constexpr std::size_t rows_that_widen = 14;

constexpr float none = -std::numeric_limits<float>::infinity();

std::size_t first_key(std::size_t position, const AttentionRules& rules) noexcept {
  return rules.window == 0 || position < rules.window ? 0 : position + 1 - rules.window;
}

/// Some keys of the cache, and the rows of queries that attend any of them.
struct KeyBlock {
  std::size_t first = 0, count = 0;
  std::size_t first_row = 0, last_row = 0;
};

// Positions ascend, so those that attend a block are next to each other.
KeyBlock block_at(std::size_t first, const CachedQueries& queries, const AttentionRules& rules) noexcept {
  const std::size_t end = queries.first_position + queries.positions;
  KeyBlock block{.first = first, .count = std::min(keys_per_block, end - first)};
  const std::size_t first_position = std::max(queries.first_position, first);
  std::size_t last_position = end;
  if (rules.window != 0) last_position = std::min(end, first + block.count - 1 + rules.window);
  if (first_position >= last_position) return block;
  block.first_row = (first_position - queries.first_position) * queries.group;
  block.last_row = (last_position - queries.first_position) * queries.group;
  return block;
}

class SpanAttention {
 public:
  SpanAttention(const BlockKernels& kernels, const HeadCache& cache, const CachedQueries& queries,
                const AttentionRules& rules, AttentionScratch& scratch, const AttentionSums& sums)
      : kernels_(kernels),
        cache_(cache),
        queries_(queries),
        rules_(rules),
        scratch_(scratch),
        sums_(sums),
        head_size_(cache.head_size),
        padded_(padded_head_size(cache.head_size)) {}

  void attend(const KeyBlock& block) {
    const std::size_t rows = block.last_row - block.first_row;
    float* const scores = score(block, rows);
    float* const factors = scratch_.factors.get(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t own = block.first_row + row, position = queries_.first_position + own / queries_.group;
      const std::size_t first = std::max(first_key(position, rules_), block.first) - block.first;
      const std::size_t last = std::min(block.count, position + 1 - block.first);
      factors[row] = kernels_.softmax({.scores = scores + row * keys_per_block,
                                       .first = first,
                                       .last = last,
                                       .count = panels_of(block.count) * panel_columns,
                                       .scale = rules_.scale,
                                       .soft_cap = rules_.soft_cap},
                                      sums_.largest[own], sums_.total[own]);
    }
    FloatProduct product{.rows = scores,
                         .row_stride = keys_per_block,
                         .row_count = rows,
                         .inner = block.count,
                         .values = nullptr,
                         .value_stride = padded_,
                         .factors = factors,
                         .out = sums_.values + block.first_row * padded_,
                         .out_stride = padded_,
                         .columns = padded_,
                         .ahead = at(cache_.values, block.first + keys_per_block),
                         .ahead_bytes = block_bytes()};
    if (widens(rows) && padded_ == head_size_) {
      product.half_values = static_cast<const std::uint16_t*>(at(cache_.values, block.first));
    } else {
      product.values = values(block);
    }
    kernels_.float_product(product);
  }

 private:
  [[nodiscard]] std::size_t block_bytes() const { return keys_per_block * cache_row_bytes(cache_.form, head_size_); }

  [[nodiscard]] const void* at(const void* cache, std::size_t key) const {
    return static_cast<const std::byte*>(cache) + key * cache_row_bytes(cache_.form, head_size_);
  }

  [[nodiscard]] bool widens(std::size_t rows) const {
    return cache_.form == CacheForm::float16 && rows <= rows_that_widen;
  }

  // What the keys or values of a block are, `stride` apart.
  void read(const void* cache, const KeyBlock& block, std::size_t stride, float* out) const {
    const void* const rows = at(cache, block.first);
    switch (cache_.form) {
      case CacheForm::float32:
        for (std::size_t key = 0; key < block.count; ++key) {
          std::copy_n(static_cast<const float*>(rows) + key * head_size_, head_size_, out + key * stride);
        }
        break;
      case CacheForm::float16: {
        const auto* const halves = static_cast<const std::uint16_t*>(rows);
        if (stride == head_size_) {
          kernels_.from_half(halves, block.count * head_size_, out);
          break;
        }
        for (std::size_t key = 0; key < block.count; ++key) {
          kernels_.from_half(halves + key * head_size_, head_size_, out + key * stride);
        }
        break;
      }
      case CacheForm::int8:
        kernels_.from_codes(static_cast<const std::int8_t*>(rows), block.count, head_size_,
                            cache_block_size(head_size_), stride, out);
        break;
    }
  }

  // [rows, keys_per_block]
  float* score(const KeyBlock& block, std::size_t rows) {
    // Of panels of either type.
    float* const packed = scratch_.packed_keys.get(keys_per_block * head_size_);
    auto* const half_packed = reinterpret_cast<std::uint16_t*>(packed);
    const bool is_half = widens(rows);
    if (is_half) {
      const auto* const own = static_cast<const std::uint16_t*>(at(cache_.keys, block.first));
      kernels_.pack_half_keys(own, block.count, head_size_, half_packed);
    } else {
      kernels_.pack_keys(keys(block), block.count, head_size_, packed);
    }
    float* const scores = scratch_.scores.get(rows * keys_per_block);
    // The next block is fetched while this one is multiplied.
    const std::size_t panels = panels_of(block.count), ahead_bytes = block_bytes() / panels;
    const auto* const next = static_cast<const std::byte*>(at(cache_.keys, block.first + keys_per_block));
    for (std::size_t panel = 0; panel < panels; ++panel) {
      kernels_.float_product({.rows = queries_.queries + block.first_row * head_size_,
                              .row_stride = head_size_,
                              .row_count = rows,
                              .inner = head_size_,
                              .values = packed + panel * panel_columns * head_size_,
                              .half_values = is_half ? half_packed + panel * panel_columns * head_size_ : nullptr,
                              .value_stride = panel_columns,
                              .factors = nullptr,
                              .out = scores + panel * panel_columns,
                              .out_stride = keys_per_block,
                              .columns = panel_columns,
                              .ahead = next + panel * ahead_bytes,
                              .ahead_bytes = ahead_bytes});
    }
    return scores;
  }

  const float* keys(const KeyBlock& block) {
    if (cache_.form == CacheForm::float32) return static_cast<const float*>(at(cache_.keys, block.first));
    float* const converted = scratch_.keys.get(keys_per_block * head_size_);
    read(cache_.keys, block, head_size_, converted);
    return converted;
  }

  // [count, padded head size]
  const float* values(const KeyBlock& block) {
    if (cache_.form == CacheForm::float32 && padded_ == head_size_) {
      return static_cast<const float*>(at(cache_.values, block.first));
    }
    float* const padded = scratch_.values.get(keys_per_block * padded_);
    read(cache_.values, block, padded_, padded);
    if (padded_ == head_size_) return padded;
    for (std::size_t key = 0; key < block.count; ++key) {
      float* const to = padded + key * padded_;
      std::fill(to + head_size_, to + padded_, 0.0F);
    }
    return padded;
  }

  const BlockKernels& kernels_;
  const HeadCache& cache_;
  const CachedQueries& queries_;
  const AttentionRules& rules_;
  AttentionScratch& scratch_;
  const AttentionSums& sums_;
  const std::size_t head_size_, padded_;
};

}  // namespace

std::size_t padded_head_size(std::size_t head_size) noexcept {
  return (head_size + panel_columns - 1) / panel_columns * panel_columns;
}

SpanRange spans_of(const CachedQueries& queries, const AttentionRules& rules) noexcept {
  const std::size_t end = queries.first_position + queries.positions;
  return {first_key(queries.first_position, rules) / keys_per_span, (end + keys_per_span - 1) / keys_per_span};
}

std::size_t AttentionSums::size(std::size_t rows, std::size_t head_size) noexcept {
  return rows * (padded_head_size(head_size) + 2);
}

AttentionSums AttentionSums::in(float* memory, std::size_t rows, std::size_t head_size) noexcept {
  float* const largest = memory + rows * padded_head_size(head_size);
  return {.values = memory, .largest = largest, .total = largest + rows};
}

void clear(const AttentionSums& all, std::size_t rows, std::size_t head_size) noexcept {
  std::fill_n(all.values, rows * padded_head_size(head_size), 0.0F);
  std::fill_n(all.largest, rows, none);
  std::fill_n(all.total, rows, 0.0F);
}

void attend(const BlockKernels& kernels, const HeadCache& cache, const CachedQueries& queries,
            const AttentionRules& rules, std::size_t span, AttentionScratch& scratch, const AttentionSums& sums) {
  clear(sums, queries.rows(), cache.head_size);
  SpanAttention attention(kernels, cache, queries, rules, scratch, sums);
  const std::size_t end = std::min((span + 1) * keys_per_span, queries.first_position + queries.positions);
  const std::size_t begin = first_key(queries.first_position, rules) / keys_per_block * keys_per_block;
  for (std::size_t first = std::max(begin, span * keys_per_span); first < end; first += keys_per_block) {
    const KeyBlock block = block_at(first, queries, rules);
    if (block.first_row < block.last_row) attention.attend(block);
  }
}

void add(const AttentionSums& all, const AttentionSums& part, std::size_t rows, std::size_t head_size) noexcept {
  const std::size_t padded = padded_head_size(head_size);
  for (std::size_t row = 0; row < rows; ++row) {
    if (part.total[row] == 0) continue;
    float* const to = all.values + row * padded;
    const float* const from = part.values + row * padded;
    if (all.total[row] == 0) {
      std::copy_n(from, padded, to);
      all.largest[row] = part.largest[row];
      all.total[row] = part.total[row];
      continue;
    }
    const float largest = std::max(all.largest[row], part.largest[row]);
    const float own = std::exp(all.largest[row] - largest), others = std::exp(part.largest[row] - largest);
    for (std::size_t i = 0; i < padded; ++i) to[i] = to[i] * own + from[i] * others;
    all.total[row] = all.total[row] * own + part.total[row] * others;
    all.largest[row] = largest;
  }
}

void finish(const AttentionSums& all, std::size_t rows, std::size_t head_size, float* out) noexcept {
  const std::size_t padded = padded_head_size(head_size);
  for (std::size_t row = 0; row < rows; ++row) {
    const float inverse = 1.0F / all.total[row];
    for (std::size_t i = 0; i < head_size; ++i) out[row * head_size + i] = all.values[row * padded + i] * inverse;
  }
}

}  // namespace gpux_cpu::decoder
