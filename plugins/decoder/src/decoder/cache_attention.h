#pragma once

#include <cstddef>

#include "block_kernels/block_kernels.h"
#include "decoder/cache_rows.h"
#include "kernels/scratch.h"

namespace gpux_cpu::decoder {

/// The keys and values of one head of one row of a batch, [positions, cache_row_size] each.
struct HeadCache {
  const void *keys = nullptr, *values = nullptr;
  CacheForm form = CacheForm::float32;
  std::size_t head_size = 0;
};

struct AttentionRules {
  float scale = 1;         ///< factor of query * key
  float soft_cap = 0;      ///< a score becomes soft_cap * tanh(score / soft_cap); 0: stays
  std::size_t window = 0;  ///< keys that a query attends, its own among them; 0: all up to its own
};

/// Consecutive positions of the query heads that share a key head.
struct CachedQueries {
  const float* queries = nullptr;  ///< [positions, group, head_size]
  std::size_t first_position = 0, positions = 0, group = 0;

  [[nodiscard]] std::size_t rows() const noexcept { return positions * group; }
};

/// Keys are attended in spans, whose results are added up one after the other: different threads may attend them.
inline constexpr std::size_t keys_per_span = 1024;

/// The spans with keys that are attended: [first, last).
struct SpanRange {
  std::size_t first = 0, last = 0;
};

SpanRange spans_of(const CachedQueries& queries, const AttentionRules& rules) noexcept;

/// Running sums of attention over the keys seen so far, one row per query. Does not own its memory.
struct AttentionSums {
  float* values = nullptr;   ///< [rows, padded_head_size]: of exp(score - largest) * value
  float* largest = nullptr;  ///< largest score so far; -infinity: none
  float* total = nullptr;    ///< sum of exp(score - largest)

  /// Floats of memory for so many rows.
  static std::size_t size(std::size_t rows, std::size_t head_size) noexcept;
  static AttentionSums in(float* memory, std::size_t rows, std::size_t head_size) noexcept;
};

std::size_t padded_head_size(std::size_t head_size) noexcept;

/// Scratch memory, one thread at a time.
struct AttentionScratch {
  ScratchBuffer<float> keys, packed_keys, values, scores, factors, queries, span, sums;
};

/// sums = those of one span. What a row gets depends on its own query and position alone, and on the keys and values
/// up to its position: not on the other rows. Values behind it are read, and must be numbers.
void attend(const BlockKernels& kernels, const HeadCache& cache, const CachedQueries& queries,
            const AttentionRules& rules, std::size_t span, AttentionScratch& scratch, const AttentionSums& sums);

/// all += part; the spans in their order, the first one into what clear() made.
void clear(const AttentionSums& all, std::size_t rows, std::size_t head_size) noexcept;
void add(const AttentionSums& all, const AttentionSums& part, std::size_t rows, std::size_t head_size) noexcept;

/// out[row] = the mean of the values, float[rows, head_size].
void finish(const AttentionSums& all, std::size_t rows, std::size_t head_size, float* out) noexcept;

}  // namespace gpux_cpu::decoder
