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

void require_length(std::size_t length, std::size_t longest) {
  if (length <= longest) return;
  throw InvalidBatch("a text of " + std::to_string(length) +
                     " tokens is longer than the model's positions; accepted: up to " + std::to_string(longest));
}

}  // namespace

void require_valid(const Batch& batch, const Weights& weights, bool wants_first) {
  const std::size_t count = batch.texts * batch.length;
  const std::span<const std::int64_t> ids(batch.ids, count);
  require_below(ids, weights.words.size() / weights.hidden, "token id");
  if (batch.mask != nullptr) require_below({batch.mask, count}, 2, "attention mask value");
  if (!weights.types.empty() && batch.types != nullptr) {
    require_below({batch.types, count}, weights.types.size() / weights.hidden, "token type");
  }
  const std::size_t positions = weights.positions.size() / weights.hidden;
  if (!weights.relative.empty()) require_length(batch.length, weights.relative_places);
  if (!weights.padding) {
    require_length(batch.length, positions);
  } else if (batch.length >= positions) {
    // Position 0 is that of padding, which does not count.
    for (std::size_t text = 0; text < batch.texts; ++text) {
      const auto padding = std::ranges::count(ids.subspan(text * batch.length, batch.length), *weights.padding);
      require_length(batch.length - static_cast<std::size_t>(padding), positions - 1);
    }
  }
  if (wants_first && batch.texts > 0 && batch.length == 0) {
    throw InvalidBatch(
        "texts without a token have no first one, whose vector the model takes; accepted: 1 token or more");
  }
}

}  // namespace gpux_encoder
