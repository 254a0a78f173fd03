#include "encoder/packed_tokens.h"

#include <algorithm>

namespace gpux_encoder {
namespace {

void add(PackedTokens& packed, const Batch& batch, std::size_t text, std::size_t position, std::int64_t position_id) {
  const std::size_t token = text * batch.sequence_length + position;
  packed.input_ids.push_back(batch.input_ids[token]);
  packed.token_type_ids.push_back(batch.token_type_ids == nullptr ? 0 : batch.token_type_ids[token]);
  packed.position_ids.push_back(position_id);
  packed.positions.push_back(position);
}

}  // namespace

PackedTokens pack_tokens(const Batch& batch, const std::optional<std::int64_t>& pad_token_id, MaskedTokens masked) {
  PackedTokens packed;
  std::vector<std::int64_t> position_ids(batch.sequence_length);
  packed.text_starts.push_back(0);
  for (std::size_t text = 0; text < batch.batch_size; ++text) {
    const std::size_t first = text * batch.sequence_length;
    std::int64_t tokens = 0;
    for (std::size_t position = 0; position < batch.sequence_length; ++position) {
      const bool is_token = !pad_token_id || batch.input_ids[first + position] != *pad_token_id;
      if (is_token) ++tokens;
      position_ids[position] = !pad_token_id ? static_cast<std::int64_t>(position) : is_token ? tokens : 0;
    }
    const auto add_where = [&](bool is_unmasked, std::size_t end) {
      for (std::size_t position = 0; position < end; ++position) {
        const bool is = batch.attention_mask == nullptr || batch.attention_mask[first + position] != 0;
        if (is == is_unmasked) add(packed, batch, text, position, position_ids[position]);
      }
    };
    add_where(true, batch.sequence_length);
    packed.unmasked_counts.push_back(packed.input_ids.size() - packed.text_starts.back());
    // If all tokens are masked, the attention of the first row is over all of them.
    const bool needs_all = masked == MaskedTokens::all || packed.unmasked_counts.back() == 0;
    if (masked != MaskedTokens::none) {
      add_where(false, needs_all ? batch.sequence_length : std::min<std::size_t>(1, batch.sequence_length));
    }
    packed.text_starts.push_back(packed.input_ids.size());
  }
  return packed;
}

}  // namespace gpux_encoder
