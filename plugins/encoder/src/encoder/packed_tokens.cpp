#include "encoder/packed_tokens.h"

#include <algorithm>

namespace gpux_cpu::encoder {
namespace {

void add(PackedTokens& packed, const Batch& batch, std::size_t text, std::size_t position, std::int64_t position_id) {
  const std::size_t token = text * batch.sequence_length + position;
  packed.input_ids.push_back(batch.input_ids[token]);
  packed.token_type_ids.push_back(batch.token_type_ids == nullptr ? 0 : batch.token_type_ids[token]);
  packed.position_ids.push_back(position_id);
  packed.positions.push_back(position);
}

bool is_unmasked(const Batch& batch, std::size_t token) {
  return batch.attention_mask == nullptr || batch.attention_mask[token] != 0;
}

// Of the tokens of a text, the first of which is `first` in the batch.
void fill_position_ids(const Batch& batch, const Weights& weights, std::size_t first,
                       std::vector<std::int64_t>& position_ids) {
  std::int64_t count = 0;
  for (std::size_t position = 0; position < position_ids.size(); ++position) {
    std::int64_t& id = position_ids[position];
    switch (weights.position_ids) {
      case PositionIds::index:
        id = static_cast<std::int64_t>(position);
        break;
      case PositionIds::from_pad_token:
        id = batch.input_ids[first + position] == weights.pad_token_id ? 0 : ++count;
        break;
      case PositionIds::from_mask:
        id = is_unmasked(batch, first + position) ? count++ : weights.masked_position_id;
        break;
      case PositionIds::input:
        id = batch.position_ids[first + position];
        break;
    }
  }
}

// Whether a masked query may attend no unmasked key, so that it attends the masked ones.
bool may_attend_masked(const Weights& weights) {
  return weights.mask_excludes_queries ||
         std::ranges::any_of(weights.layers, [](const Layer& layer) { return layer.causal || layer.window; });
}

}  // namespace

PackedTokens pack_tokens(const Batch& batch, const Weights& weights, MaskedTokens masked) {
  const bool attends_masked = may_attend_masked(weights);
  PackedTokens packed;
  std::vector<std::int64_t> position_ids(batch.sequence_length);
  packed.text_starts.push_back(0);
  for (std::size_t text = 0; text < batch.batch_size; ++text) {
    const std::size_t first = text * batch.sequence_length;
    fill_position_ids(batch, weights, first, position_ids);
    const auto add_where = [&](bool unmasked, std::size_t end) {
      for (std::size_t position = 0; position < end; ++position) {
        if (is_unmasked(batch, first + position) == unmasked)
          add(packed, batch, text, position, position_ids[position]);
      }
    };
    add_where(true, batch.sequence_length);
    packed.unmasked_counts.push_back(packed.input_ids.size() - packed.text_starts.back());
    // If all tokens are masked, the attention of the first row is over all of them.
    const bool is_first_masked = batch.sequence_length > 0 && !is_unmasked(batch, first);
    const bool needs_all =
        masked == MaskedTokens::all || packed.unmasked_counts.back() == 0 || (is_first_masked && attends_masked);
    if (masked != MaskedTokens::none) {
      add_where(false, needs_all ? batch.sequence_length : std::min<std::size_t>(1, batch.sequence_length));
    }
    packed.text_starts.push_back(packed.input_ids.size());
  }
  return packed;
}

}  // namespace gpux_cpu::encoder
