#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encoder/batch.h"

namespace gpux_cpu::encoder {

/// The rows of masked tokens that are requested.
enum class MaskedTokens : std::uint8_t { none, first_token, all };

/// The tokens of all texts, one text after the other: of each text its unmasked tokens, then the requested masked ones.
struct PackedTokens {
  std::vector<std::int64_t> input_ids, token_type_ids, position_ids;
  std::vector<std::size_t> text_starts;      // of each text, and the end of the last
  std::vector<std::size_t> unmasked_counts;  // of each text
  std::vector<std::size_t> positions;        // of each token in its text
};

/// `weights` says what the position ids are, and whether masked tokens attend others.
PackedTokens pack_tokens(const Batch& batch, const Weights& weights, MaskedTokens masked);

}  // namespace gpux_cpu::encoder
