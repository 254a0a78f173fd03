#include "encoder/batch.h"

#include <algorithm>
#include <span>
#include <string>

namespace gpux_cpu::encoder {
namespace {

/// Refuses the first of the values that is not below `end`, or negative.
void require_below(std::span<const std::int64_t> values, std::size_t end, const char* what) {
  const auto is_beyond = [end](std::int64_t value) { return static_cast<std::uint64_t>(value) >= end; };
  const auto found = std::ranges::find_if(values, is_beyond);
  if (found == values.end()) return;
  throw InvalidInput(std::string(what) + " " + std::to_string(*found) + " is not one of the model's; accepted: 0 to " +
                     std::to_string(static_cast<std::int64_t>(end) - 1));
}

void require_length(std::size_t length, std::size_t max_length) {
  if (length <= max_length) return;
  throw InvalidInput("a text of " + std::to_string(length) +
                     " tokens is longer than the model's positions; accepted: up to " + std::to_string(max_length));
}

// The number of tokens of a text that `counts` is true for.
template <typename Counts>
void require_counts(const Batch& batch, std::size_t max_count, const Counts& counts) {
  if (batch.sequence_length <= max_count) return;
  for (std::size_t text = 0; text < batch.batch_size; ++text) {
    std::size_t count = 0;
    for (std::size_t i = text * batch.sequence_length; i < (text + 1) * batch.sequence_length; ++i) {
      if (counts(i)) ++count;
    }
    require_length(count, max_count);
  }
}

void require_positions(const Batch& batch, const Weights& weights, std::size_t positions) {
  switch (weights.position_ids) {
    case PositionIds::index:
      require_length(batch.sequence_length, positions);
      return;
    case PositionIds::from_pad_token:
      // Position 0 is that of padding, which does not count.
      require_counts(batch, positions - 1, [&](std::size_t i) { return batch.input_ids[i] != weights.pad_token_id; });
      return;
    case PositionIds::from_mask:
      require_counts(batch, positions, [&](std::size_t i) {
        if (weights.masked_id) return batch.input_ids[i] != *weights.masked_id;
        return batch.attention_mask == nullptr || batch.attention_mask[i] != 0;
      });
      return;
    case PositionIds::input:
      require_below({batch.position_ids, batch.batch_size * batch.sequence_length}, positions, "position id");
      return;
  }
}

}  // namespace

void require_valid(const Batch& batch, const Weights& weights, bool reads_first_token) {
  const std::size_t count = batch.batch_size * batch.sequence_length;
  const std::span<const std::int64_t> ids(batch.input_ids, count);
  require_below(ids, weights.word_embeddings.size() / weights.embedding_size, "token id");
  if (batch.attention_mask != nullptr) require_below({batch.attention_mask, count}, 2, "attention mask value");
  if (!weights.token_type_embeddings.empty() && batch.token_type_ids != nullptr) {
    require_below({batch.token_type_ids, count}, weights.token_type_embeddings.size() / weights.embedding_size,
                  "token type");
  }
  if (!weights.relative_bias.empty() || !weights.relative_buckets.empty())
    require_length(batch.sequence_length, weights.max_relative_positions);
  if (const auto positions = max_position_ids(weights)) require_positions(batch, weights, *positions);
  if (reads_first_token && batch.batch_size > 0 && batch.sequence_length == 0) {
    throw InvalidInput(
        "texts without a token have no first one, whose vector the model takes; accepted: 1 token or more");
  }
}

}  // namespace gpux_cpu::encoder
