#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace gpux_encoder {

/// Scratch memory for one head of one text; one thread at a time.
struct AttentionScratch {
  ScratchBuffer<float> keys, values, scores, context;
  ScratchBuffer<std::uint32_t> key_pairs, value_pairs;
  ScratchBuffer<std::uint16_t> probabilities;
};

/// What the attention mask does to the scores of masked keys. Their probabilities are 0 next to any unmasked key; in a
/// text without unmasked keys, the probabilities come from these scores alone.
struct MaskedKeys {
  float score = -10000;
  bool replaces = false;            ///< false: it is added
  bool zero_if_all_masked = false;  ///< probabilities of 0 instead of NaN

  bool operator==(const MaskedKeys&) const = default;
};

/// One head of one text, as float32 or as bfloat16.
template <typename Element>
struct AttentionHead {
  const Element *queries = nullptr, *keys = nullptr, *values = nullptr;  ///< rows of `head_size`
  std::size_t stride = 0;                                                ///< of the three, in elements
  std::size_t head_size = 0;                                             ///< even for bfloat16
  std::size_t query_count = 0, key_count = 0;                            ///< both 1 or more
  const MaskedKeys* masked_keys = nullptr;                               ///< set if all keys are masked
  float scale = 1;                                                       ///< of query * key
  float* out = nullptr;                                                  ///< [query_count, head_size]
  std::size_t out_stride = 0;
};

/// A bias that is added to the score of each query and key, by their positions; without values: none.
struct PositionBias {
  const float* values = nullptr;  ///< [2 * max_positions - 1] of this head, by key - query + max_positions - 1
  std::size_t max_positions = 0;
  const std::size_t* positions = nullptr;  ///< of each query; the keys are the first of them
};

/// out = softmax(queries * keys * scale + position_bias) * values. Adds up in float32.
void attend(const Kernels& kernels, const AttentionHead<float>& head, const PositionBias& position_bias,
            AttentionScratch& scratch);
void attend(const Kernels& kernels, const AttentionHead<std::uint16_t>& head, const PositionBias& position_bias,
            AttentionScratch& scratch);

}  // namespace gpux_encoder
