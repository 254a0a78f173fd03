#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "encoder/packed_tokens.h"
#include "encoder/weights.h"

namespace gpux_cpu::encoder {

/// Which keys the queries of a layer may attend, apart from the attention mask.
struct AttentionScope {
  std::optional<Window> window = {};
  bool causal = false;
  bool mask_excludes_queries = false;

  bool operator==(const AttentionScope&) const = default;
};

/// Queries of a text that are computed together, and the keys that at least one of them attends. Rows of the text.
struct AttentionChunk {
  std::size_t text = 0;
  std::size_t first_query = 0, last_query = 0, first_key = 0, last_key = 0;
  bool all_masked = false;  ///< the queries attend no key: MaskedKeys decides, over all rows of the text

  bool operator==(const AttentionChunk&) const = default;
};

struct AttentionPlan {
  std::vector<AttentionChunk> chunks;
  /// For each row of the texts, the keys that it attends, counted from the chunk's first_key; empty: all keys of the
  /// chunk.
  std::vector<KeyRange> ranges;
};

/// Chunks of at most so many queries, so that the threads can share a long text.
inline constexpr std::size_t queries_per_chunk = 2048;

/// For the texts [first_text, last_text). The chunks of a text's unmasked queries depend on these alone. Pure.
AttentionPlan plan_attention(const PackedTokens& packed, std::size_t first_text, std::size_t last_text,
                             const AttentionScope& scope);

}  // namespace gpux_cpu::encoder
