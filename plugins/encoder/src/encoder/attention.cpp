#include "encoder/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace gpux_cpu::encoder {
namespace {

// Softmax takes so many scores at a time; a row of scores is padded to a multiple.
constexpr std::size_t softmax_step = 16;
// Keys whose scores are computed together: with so many queries they fit the second cache.
constexpr std::size_t keys_per_part = 512;
constexpr std::size_t queries_per_block = 128, queries_per_ranged_block = 64;
// Its probability is next to 0.
constexpr float masked_score = -std::numeric_limits<float>::infinity();

std::size_t rounded_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// The packed keys and values of `scratch`, as the products take them.
struct PackedFloats {
  using Element = float;
  const float *keys, *values;
  std::size_t value_rows;

  static PackedFloats of(const AttentionKeys<float>& keys, AttentionScratch& scratch) {
    return {scratch.keys.get(0), scratch.values.get(0), keys.count};
  }

  static void multiply(const Kernels& kernels, const float* rows, std::size_t row_stride, std::size_t row_count,
                       std::size_t inner, const float* weights, float* out, std::size_t out_stride,
                       std::size_t panels) {
    kernels.float_product({rows, row_stride, row_count, inner, weights, nullptr, out, out_stride, 0, panels});
  }

  // Of probabilities.
  static const float* rows(const Kernels& /*kernels*/, const float* scores, std::size_t /*stride*/,
                           std::size_t /*row_count*/, std::size_t /*columns*/, AttentionScratch& /*scratch*/) {
    return scores;
  }

  static std::size_t inner(std::size_t keys) { return keys; }
};

struct PackedBfloat16s {
  using Element = std::uint16_t;
  const std::uint16_t *keys, *values;
  std::size_t value_rows;

  static PackedBfloat16s of(const AttentionKeys<std::uint16_t>& keys, AttentionScratch& scratch) {
    const auto bfloat16s = [](const std::uint32_t* pairs) { return reinterpret_cast<const std::uint16_t*>(pairs); };
    return {bfloat16s(scratch.key_pairs.get(0)), bfloat16s(scratch.value_pairs.get(0)),
            rounded_up(keys.count, bfloat16_depth)};
  }

  static void multiply(const Kernels& kernels, const std::uint16_t* rows, std::size_t row_stride, std::size_t row_count,
                       std::size_t inner, const std::uint16_t* weights, float* out, std::size_t out_stride,
                       std::size_t panels) {
    kernels.bfloat16_product({rows, row_stride, row_count, inner, weights, nullptr, out, out_stride, 0, panels});
  }

  static const std::uint16_t* rows(const Kernels& kernels, const float* scores, std::size_t stride,
                                   std::size_t row_count, std::size_t columns, AttentionScratch& scratch) {
    std::uint16_t* const rounded = scratch.probabilities.get(row_count * stride);
    for (std::size_t row = 0; row < row_count; ++row) {
      kernels.to_bfloat16(scores + row * stride, columns, rounded + row * stride);
    }
    return rounded;
  }

  static std::size_t inner(std::size_t keys) { return rounded_up(keys, bfloat16_depth); }
};

/// The queries of one head of one text, block by block.
template <typename Packed>
class Attention {
  using Element = typename Packed::Element;

 public:
  Attention(const Kernels& kernels, const AttentionKeys<Element>& keys, const AttentionQueries<Element>& queries,
            const ScoreTerms<Element>& terms, AttentionScratch& scratch)
      : kernels_(kernels),
        keys_(keys),
        queries_(queries),
        terms_(terms),
        scratch_(scratch),
        packed_(Packed::of(keys, scratch)),
        padded_head_size_(panels_of(keys.head_size) * panel_columns) {}

  void run() {
    read_positions();
    prepare_bias();
    prepare_relative();
    const std::size_t block = queries_.ranges == nullptr ? queries_per_block : queries_per_ranged_block;
    for (std::size_t first = 0; first < queries_.count; first += block) {
      run_block(first, std::min(first + block, queries_.count));
    }
  }

 private:
  void run_block(std::size_t first, std::size_t last) {
    std::size_t first_key = 0, last_key = keys_.count;
    if (queries_.ranges != nullptr) {
      first_key = keys_.count;
      last_key = 0;
      for (std::size_t query = first; query < last; ++query) {
        first_key = std::min<std::size_t>(first_key, queries_.ranges[query].first);
        last_key = std::max<std::size_t>(last_key, queries_.ranges[query].last);
      }
      first_key -= first_key % panel_columns;
    }
    multiply_relative_keys(first, last);
    if (last_key - first_key <= keys_per_part) {
      run_whole(first, last, first_key, last_key);
    } else {
      run_parts(first, last, first_key, last_key);
    }
  }

  // All keys of the block at once: its rows are divided by their sums before they are multiplied.
  void run_whole(std::size_t first, std::size_t last, std::size_t first_key, std::size_t last_key) {
    const std::size_t stride = panels_of(last_key - first_key) * panel_columns, rows = last - first;
    const std::size_t columns = rounded_up(last_key - first_key, softmax_step);
    float* const scores = make_scores(first, last, first_key, last_key, stride);
    for (std::size_t query = first; query < last; ++query) {
      float* const row = scores + (query - first) * stride;
      if (has_infinite_mask()) {
        // The softmax of infinities is NaN, which the forward pass writes at the end.
        std::fill_n(row, columns, 0.0F);
      } else {
        kernels_.softmax(row, columns, finish_scores(query, first_key, last_key, columns, row));
      }
    }
    const Element* const probabilities = Packed::rows(kernels_, scores, stride, rows, columns, scratch_);
    // The kernels write whole panels. A narrower head goes through scratch memory, because the next head follows it.
    float* const out = queries_.out + first * queries_.out_stride;
    if (keys_.head_size == padded_head_size_) {
      multiply_values(probabilities, stride, rows, first_key, last_key, out, queries_.out_stride);
      return;
    }
    float* const context = scratch_.context.get(rows * padded_head_size_);
    multiply_values(probabilities, stride, rows, first_key, last_key, context, padded_head_size_);
    for (std::size_t row = 0; row < rows; ++row) {
      std::copy_n(context + row * padded_head_size_, keys_.head_size, out + row * queries_.out_stride);
    }
  }

  // Part after part of the keys, with the largest score and the sum of the powers so far.
  void run_parts(std::size_t first, std::size_t last, std::size_t first_key, std::size_t last_key) {
    const std::size_t rows = last - first, stride = keys_per_part, size = rows * padded_head_size_;
    float* const context = scratch_.context.get(size);
    float* const part = scratch_.part.get(size);
    float* const largest = scratch_.largest.get(rows);
    float* const sums = scratch_.sums.get(rows);
    std::fill_n(context, size, 0.0F);
    std::fill_n(largest, rows, masked_score);
    std::fill_n(sums, rows, 0.0F);
    for (std::size_t begin = first_key; begin < last_key; begin += keys_per_part) {
      const std::size_t end = std::min(begin + keys_per_part, last_key);
      const std::size_t columns = rounded_up(end - begin, softmax_step);
      float* const scores = make_scores(first, last, begin, end, stride);
      for (std::size_t row = 0; row < rows; ++row) {
        float* const values = scores + row * stride;
        if (has_infinite_mask()) {
          std::fill_n(values, columns, 0.0F);
          continue;
        }
        const float scale = finish_scores(first + row, begin, end, columns, values);
        const float factor = kernels_.softmax_part(values, columns, scale, largest[row], sums[row]);
        if (factor == 1) continue;
        float* const so_far = context + row * padded_head_size_;
        for (std::size_t i = 0; i < padded_head_size_; ++i) so_far[i] *= factor;
      }
      const Element* const probabilities = Packed::rows(kernels_, scores, stride, rows, columns, scratch_);
      multiply_values(probabilities, stride, rows, begin, end, part, padded_head_size_);
      kernels_.scale_and_add(context, 1, part, size);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const float inverse_sum = has_infinite_mask() ? 0.0F : 1 / sums[row];
      float* const out = queries_.out + (first + row) * queries_.out_stride;
      for (std::size_t i = 0; i < keys_.head_size; ++i) out[i] = context[row * padded_head_size_ + i] * inverse_sum;
    }
  }

  [[nodiscard]] bool has_infinite_mask() const {
    return queries_.masked_keys != nullptr && std::isinf(queries_.masked_keys->score);
  }

  // Products of queries and keys; `first_key` is the first of a panel.
  float* make_scores(std::size_t first, std::size_t last, std::size_t first_key, std::size_t last_key,
                     std::size_t stride) {
    float* const scores = scratch_.scores.get((last - first) * stride);
    Packed::multiply(kernels_, queries_.queries + first * queries_.stride, queries_.stride, last - first,
                     keys_.head_size, packed_.keys + first_key * keys_.head_size, scores, stride,
                     panels_of(last_key - first_key));
    return scores;
  }

  // Adds what is not a product of query and key. Returns the scale that is left to softmax.
  float finish_scores(std::size_t query, std::size_t first_key, std::size_t last_key, std::size_t columns, float* row) {
    const std::size_t count = last_key - first_key;
    const MaskedKeys* const masked_keys = queries_.masked_keys;
    float scale = queries_.scale;
    if (terms_.is_disentangled()) add_relative(query, first_key, count, row);
    if (bias_ != nullptr || masked_keys != nullptr || scale < 0) {
      if (bias_ != nullptr) {
        kernels_.scale_and_add(row, scale, by_distance(bias_, bias_of_zero_, query, first_key, count, scratch_.bias),
                               count);
      } else {
        for (std::size_t key = 0; key < count; ++key) row[key] *= scale;
      }
      if (masked_keys != nullptr) {
        for (std::size_t key = 0; key < count; ++key) {
          row[key] = masked_keys->replaces ? masked_keys->score : row[key] + masked_keys->score;
        }
      }
      scale = 1;
    }
    std::size_t begin = 0, end = count;
    if (queries_.ranges != nullptr) {
      const KeyRange range = queries_.ranges[query];
      begin = std::clamp<std::size_t>(range.first, first_key, last_key) - first_key;
      end = std::clamp<std::size_t>(range.last, first_key, last_key) - first_key;
    }
    std::fill(row, row + begin, masked_score);
    std::fill(row + end, row + columns, masked_score);
    return scale;
  }

  // The entries of a table by key position - query position, for keys from `first_key` on; `of_zero` is that of 0.
  template <typename Number>
  const Number* by_distance(const Number* table, std::size_t of_zero, std::size_t query, std::size_t first_key,
                            std::size_t count, ScratchBuffer<Number>& scratch) {
    const std::size_t of_query = of_zero - queries_.positions[query];
    if (is_contiguous_) return table + of_query + keys_.positions[first_key];
    // Behind the table of this head, if it is in the same memory.
    Number* const entries = scratch.get(table_size_ + count) + table_size_;
    for (std::size_t key = 0; key < count; ++key) entries[key] = table[of_query + keys_.positions[first_key + key]];
    return entries;
  }

  void read_positions() {
    if (terms_.relative_bias == nullptr && terms_.alibi_slope == 0 && !terms_.is_disentangled()) return;
    const std::span keys(keys_.positions, keys_.count), queries(queries_.positions, queries_.count);
    key_positions_ = std::ranges::minmax(keys);
    query_positions_ = std::ranges::minmax(queries);
    is_contiguous_ = std::ranges::adjacent_find(
                         keys, [](std::size_t one, std::size_t next) { return next != one + 1; }) == keys.end();
  }

  void prepare_bias() {
    bias_ = terms_.relative_bias;
    bias_of_zero_ = terms_.max_positions - 1;
    if (terms_.alibi_slope == 0) return;
    // With a relative bias, both are added.
    const std::size_t last = std::max(key_positions_.max, query_positions_.max);
    table_size_ = 2 * last + 1;
    float* const table = scratch_.bias.get(table_size_ + keys_per_part);
    for (std::size_t i = 0; i < table_size_; ++i) {
      const std::size_t distance = i < last ? last - i : i - last;
      table[i] = -terms_.alibi_slope * static_cast<float>(distance);
      if (terms_.relative_bias != nullptr) table[i] += terms_.relative_bias[bias_of_zero_ + i - last];
    }
    bias_ = table;
    bias_of_zero_ = last;
  }

  // The buckets of all distances of this text, and the products of their query rows with all keys.
  void prepare_relative() {
    if (!terms_.is_disentangled()) return;
    const std::uint32_t* const of_zero = terms_.relative.buckets + terms_.max_positions - 1;
    const auto [low, high] = std::minmax_element(of_zero + key_positions_.min - query_positions_.max,
                                                 of_zero + key_positions_.max - query_positions_.min + 1);
    first_bucket_ = *low - *low % static_cast<std::uint32_t>(panel_columns);
    bucket_count_ = *high + 1 - first_bucket_;
    if (terms_.relative.query_rows == nullptr) return;
    key_stride_ = panels_of(keys_.count) * panel_columns;
    float* const products = scratch_.key_products.get(bucket_count_ * key_stride_);
    Packed::multiply(kernels_, terms_.relative.query_rows + first_bucket_ * keys_.head_size, keys_.head_size,
                     bucket_count_, keys_.head_size, packed_.keys, products, key_stride_, panels_of(keys_.count));
    key_products_ = products;
  }

  void multiply_relative_keys(std::size_t first, std::size_t last) {
    if (terms_.relative.packed_keys == nullptr) return;
    const std::size_t panels = panels_of(bucket_count_);
    query_stride_ = panels * panel_columns;
    first_query_ = first;
    float* const products = scratch_.query_products.get((last - first) * query_stride_);
    Packed::multiply(kernels_, queries_.queries + first * queries_.stride, queries_.stride, last - first,
                     keys_.head_size, terms_.relative.packed_keys + first_bucket_ * keys_.head_size, products,
                     query_stride_, panels);
    query_products_ = products;
  }

  void add_relative(std::size_t query, std::size_t first_key, std::size_t count, float* row) {
    const std::uint32_t* const buckets =
        by_distance(terms_.relative.buckets, terms_.max_positions - 1, query, first_key, count, scratch_.buckets);
    kernels_.add_relative(
        row, buckets, first_bucket_,
        query_products_ == nullptr ? nullptr : query_products_ + (query - first_query_) * query_stride_,
        key_products_ == nullptr ? nullptr : key_products_ + first_key, key_stride_, count);
  }

  // Panel by panel: that of a part of the keys is not as long as those in memory.
  void multiply_values(const Element* probabilities, std::size_t stride, std::size_t rows, std::size_t first_key,
                       std::size_t last_key, float* out, std::size_t out_stride) {
    for (std::size_t column = 0; column < padded_head_size_; column += panel_columns) {
      Packed::multiply(kernels_, probabilities, stride, rows, Packed::inner(last_key - first_key),
                       packed_.values + column * packed_.value_rows + first_key * panel_columns, out + column,
                       out_stride, 1);
    }
  }

  const Kernels& kernels_;
  const AttentionKeys<Element>& keys_;
  const AttentionQueries<Element>& queries_;
  const ScoreTerms<Element>& terms_;
  AttentionScratch& scratch_;
  const Packed packed_;
  const std::size_t padded_head_size_;
  std::ranges::minmax_result<std::size_t> key_positions_{}, query_positions_{};
  bool is_contiguous_ = false;  // positions of keys
  const float* bias_ = nullptr;
  std::size_t bias_of_zero_ = 0, table_size_ = 0;
  std::uint32_t first_bucket_ = 0;
  std::size_t bucket_count_ = 0, key_stride_ = 0, query_stride_ = 0, first_query_ = 0;
  const float *key_products_ = nullptr, *query_products_ = nullptr;
};

}  // namespace

void attend(const Kernels& kernels, const AttentionKeys<float>& keys, const AttentionQueries<float>& queries,
            const ScoreTerms<float>& terms, AttentionScratch& scratch) {
  Attention<PackedFloats>(kernels, keys, queries, terms, scratch).run();
}

void attend(const Kernels& kernels, const AttentionKeys<std::uint16_t>& keys,
            const AttentionQueries<std::uint16_t>& queries, const ScoreTerms<std::uint16_t>& terms,
            AttentionScratch& scratch) {
  Attention<PackedBfloat16s>(kernels, keys, queries, terms, scratch).run();
}

}  // namespace gpux_cpu::encoder
