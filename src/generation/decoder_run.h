#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "generation/decoder_signature.h"
#include "gpux/tensor.h"

namespace gpux::generation {

/// Tokens that go behind the first `past` ones of a slot.
struct DecoderRow {
  std::size_t past = 0;
  std::span<const std::uint32_t> tokens;
};

/// Tokens of a slot, from `first` on.
struct SlotTokens {
  std::size_t slot = 0, first = 0, tokens = 0;

  bool operator==(const SlotTokens&) const = default;
};

/// Of which tokens of a row a run gives the logits.
enum class LogitRows : std::uint8_t {
  last,  ///< of the last one
  all,   ///< of each, in order
};

/// The inputs of a run beside keys and values: ids, mask and positions. The rows have as many tokens each, and what a
/// row has in the cache begins at its first position. Pure.
NamedValues token_inputs(std::span<const DecoderRow> rows, const DecoderSignature& signature);

/// float32[rows, vocabulary] of [rows, positions, vocabulary], where a model may give only the last position.
/// Error invalid_model: another shape. Pure.
Tensor last_logits(const Tensor& logits);

/// Error usage: all are wanted of keys and values that a run gives only the last ones of.
void require_last_logits(LogitRows wanted);

/// float32[rows * positions, vocabulary] of [rows, positions, vocabulary]. Error invalid_model: another shape. Pure.
Tensor all_logits(const Tensor& logits, std::size_t rows, std::size_t positions);

/// The rows of several tensors float32[rows, vocabulary], at least one, in one. Pure.
Tensor joined_rows(std::span<const Tensor> parts);

}  // namespace gpux::generation
