#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace gpux_cpu::encoder {

/// Scratch memory for one head of one text; one thread at a time.
struct AttentionScratch {
  ScratchBuffer<float> keys, values, scores, context, part, largest, sums, bias, query_products, key_products;
  ScratchBuffer<std::uint32_t> key_pairs, value_pairs, buckets;
  ScratchBuffer<std::uint16_t> probabilities;

  void release_if_large() noexcept;
};

/// How the attention mask changes the scores of masked keys. Their probabilities are 0 next to any unmasked key; for a
/// query without unmasked keys, the probabilities come from these scores alone.
struct MaskedKeys {
  float score = -10000;
  bool replaces = false;            ///< false: it is added
  bool zero_if_all_masked = false;  ///< probabilities of 0 instead of NaN

  bool operator==(const MaskedKeys&) const = default;
};

/// The keys that a query attends: [first, last) of a text's keys.
struct KeyRange {
  std::uint32_t first = 0, last = 0;

  bool operator==(const KeyRange&) const = default;
};

/// The keys and values of one head of one text, as float32 or as bfloat16.
template <typename Element>
struct AttentionKeys {
  const Element *keys = nullptr, *values = nullptr;  ///< rows of `head_size`
  std::size_t stride = 0;                            ///< elements from one token to the next, in keys and values
  std::size_t head_size = 0;                         ///< even for bfloat16
  std::size_t count = 0;                             ///< 1 or more
  const std::size_t* positions = nullptr;            ///< position of each key, ascending
};

/// Relative embeddings of one head for disentangled attention; the elements as those of the queries and keys.
template <typename Element>
struct RelativeEmbeddings {
  const Element* packed_keys = nullptr;    ///< a column for each bucket, packed in panels; null: none
  const Element* query_rows = nullptr;     ///< a row of head_size for each bucket; null: none
  const std::uint32_t* buckets = nullptr;  ///< [2 * max_positions - 1], by key - query + max_positions - 1
};

/// Terms added to a score that depend on the positions of its query and key.
template <typename Element>
struct ScoreTerms {
  const float* relative_bias = nullptr;  ///< [2 * max_positions - 1] of this head; null: none
  std::size_t max_positions = 0;         ///< positions that relative_bias and the buckets have
  float alibi_slope = 0;                 ///< -slope * |key - query| is added
  RelativeEmbeddings<Element> relative{};

  [[nodiscard]] bool is_disentangled() const noexcept {
    return relative.packed_keys != nullptr || relative.query_rows != nullptr;
  }
};

/// Some queries of one head of one text.
template <typename Element>
struct AttentionQueries {
  const Element* queries = nullptr;        ///< rows of head_size
  std::size_t stride = 0;                  ///< in elements
  std::size_t count = 0;                   ///< 1 or more
  const std::size_t* positions = nullptr;  ///< position of each query
  /// The keys of each query, not empty; null: all keys. Counted from the first of the packed keys.
  const KeyRange* ranges = nullptr;
  const MaskedKeys* masked_keys = nullptr;  ///< set if all keys are masked
  float scale = 1;                          ///< factor of query * key
  float* out = nullptr;                     ///< [count, head_size]
  std::size_t out_stride = 0;
};

/// Packs keys and values into `scratch`, for any number of attend() calls with queries of this head.
void pack(const AttentionKeys<float>& keys, AttentionScratch& scratch);
void pack(const AttentionKeys<std::uint16_t>& keys, AttentionScratch& scratch);

/// The relative_keys of one head, [buckets, head_size], as RelativeEmbeddings::packed_keys has them.
std::vector<float> packed_columns(std::span<const float> rows, std::size_t head_size);
std::vector<std::uint16_t> packed_columns(std::span<const std::uint16_t> rows, std::size_t head_size);

/// out = softmax(queries * keys * scale + terms) * values, of the packed keys. Adds up in float32. Rows of scores of up
/// to 512 keys are computed as a whole, longer ones in parts: the memory does not depend on their length. What a query
/// gets depends on its own block of queries alone, whose bounds are multiples of 64 or 128 from the first query.
void attend(const Kernels& kernels, const AttentionKeys<float>& keys, const AttentionQueries<float>& queries,
            const ScoreTerms<float>& terms, AttentionScratch& scratch);
void attend(const Kernels& kernels, const AttentionKeys<std::uint16_t>& keys,
            const AttentionQueries<std::uint16_t>& queries, const ScoreTerms<std::uint16_t>& terms,
            AttentionScratch& scratch);

}  // namespace gpux_cpu::encoder
