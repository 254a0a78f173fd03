#include "encoder/batch.h"

#include <algorithm>
#include <span>
#include <string>

namespace gpux_encoder {
namespace {

/// Refuses the first of the values that is not below `end`, or negative.
void require_below(std::span<const std::int64_t> values, std::size_t end, const char* what) {
  const auto is_beyond = [end](std::int64_t value) { return static_cast<std::uint64_t>(value) >= end; };
  const auto found = std::ranges::find_if(values, is_beyond);
  if (found == values.end()) return;
  throw InvalidBatch(std::string(what) + " " + std::to_string(*found) + " is not one of the model's; accepted: 0 to " +
                     std::to_string(static_cast<std::int64_t>(end) - 1));
}

void require_length(std::size_t length, std::size_t max_length) {
  if (length <= max_length) return;
  throw InvalidBatch("a text of " + std::to_string(length) +
                     " tokens is longer than the model's positions; accepted: up to " + std::to_string(max_length));
}

}  // namespace

void require_valid(const Batch& batch, const Weights& weights, bool reads_first_token) {
  const std::size_t count = batch.batch_size * batch.sequence_length;
  const std::span<const std::int64_t> ids(batch.input_ids, count);
  require_below(ids, weights.word_embeddings.size() / weights.hidden_size, "token id");
  if (batch.attention_mask != nullptr) require_below({batch.attention_mask, count}, 2, "attention mask value");
  if (!weights.token_type_embeddings.empty() && batch.token_type_ids != nullptr) {
    require_below({batch.token_type_ids, count}, weights.token_type_embeddings.size() / weights.hidden_size,
                  "token type");
  }
  const std::size_t positions = weights.position_embeddings.size() / weights.hidden_size;
  if (!weights.position_bias.empty()) require_length(batch.sequence_length, weights.max_bias_positions);
  if (!weights.pad_token_id) {
    require_length(batch.sequence_length, positions);
  } else if (batch.sequence_length >= positions) {
    // Position 0 is that of padding, which does not count.
    for (std::size_t text = 0; text < batch.batch_size; ++text) {
      const auto pad_tokens =
          std::ranges::count(ids.subspan(text * batch.sequence_length, batch.sequence_length), *weights.pad_token_id);
      require_length(batch.sequence_length - static_cast<std::size_t>(pad_tokens), positions - 1);
    }
  }
  if (reads_first_token && batch.batch_size > 0 && batch.sequence_length == 0) {
    throw InvalidBatch(
        "texts without a token have no first one, whose vector the model takes; accepted: 1 token or more");
  }
}

}  // namespace gpux_encoder
