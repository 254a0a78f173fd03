#include "encoder/encoder.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "encoder/forward_pass.h"
#include "encoder/packed_tokens.h"

namespace gpux_cpu::encoder {
namespace {

// Rows that go through all layers together: the weights are read once for all of them, and their results stay in the
// cache.
constexpr std::size_t rows_per_chunk = 128;
// From so many rows on, a text that is much longer than the share of a thread is divided among all threads.
constexpr std::size_t min_divided_rows = 1024;

bool has_long_text(const PackedTokens& packed, std::size_t threads) {
  const std::size_t rows = packed.input_ids.size();
  if (rows < min_divided_rows || threads <= 1) return false;
  std::size_t longest = 0;
  for (std::size_t text = 0; text + 1 < packed.text_starts.size(); ++text) {
    longest = std::max(longest, packed.text_starts[text + 1] - packed.text_starts[text]);
  }
  return longest * threads > rows + rows / 4;
}

}  // namespace

Encoder::Encoder(Weights weights, const Kernels& kernels)
    : weights_(std::move(weights)), kernels_(kernels), scratch_(std::make_unique<Scratch>()) {
  for (const Layer& layer : weights_.layers) scratch_->relative_embeddings.emplace_back(weights_, layer, kernels_);
}

Encoder::~Encoder() = default;

void Encoder::run(const Batch& given, std::size_t threads, const ParallelFor& parallel_for, const Results& results,
                  const std::atomic<bool>* stopped) const {
  const bool requires_first_token = results.vectors != nullptr && weights_.pooling == Pooling::cls;
  const bool reads_first_token =
      requires_first_token || (results.vectors != nullptr && weights_.pooling == Pooling::last);
  require_valid(given, weights_, requires_first_token);
  if (given.batch_size == 0) return;
  Batch batch = given;
  std::vector<std::int64_t> mask;
  if (weights_.masked_id) {
    mask.resize(given.batch_size * given.sequence_length);
    const auto mask_value = [this](std::int64_t id) { return id == *weights_.masked_id ? 0 : 1; };
    std::transform(given.input_ids, given.input_ids + mask.size(), mask.begin(), mask_value);
    batch.attention_mask = mask.data();
  }
  if (weights_.mask_from_front && batch.attention_mask != nullptr) {
    if (mask.empty())
      mask.assign(batch.attention_mask, batch.attention_mask + batch.batch_size * batch.sequence_length);
    for (std::size_t text = 0; text < batch.batch_size; ++text) {
      const auto first = mask.begin() + static_cast<std::ptrdiff_t>(text * batch.sequence_length);
      std::sort(first, first + static_cast<std::ptrdiff_t>(batch.sequence_length), std::greater<>());
    }
    batch.attention_mask = mask.data();
  }
  const PackedTokens packed = pack_tokens(batch, weights_,
                                          results.hidden_states != nullptr ? MaskedTokens::all
                                          : reads_first_token              ? MaskedTokens::first_token
                                                                           : MaskedTokens::none);
  const std::size_t rows = packed.input_ids.size();
  const std::size_t chunks =
      std::min(batch.batch_size, std::max({threads, std::size_t{1}, (rows + rows_per_chunk - 1) / rows_per_chunk}));
  const auto inputs_with = [&](Team* team) {
    return PassInputs{weights_, kernels_, *scratch_, packed, batch.sequence_length, team, stopped};
  };
  // Fewer texts than threads, or a text that others would wait for: the threads divide each step.
  if (chunks < threads || has_long_text(packed, threads)) {
    Team::run(threads, parallel_for,
              [&](Team& team) { run_forward_pass(inputs_with(&team), 0, batch.batch_size, results); });
    return;
  }
  std::vector<std::size_t> ends{0};
  for (std::size_t chunk = 1; chunk < chunks; ++chunk) {
    const auto next = std::ranges::lower_bound(packed.text_starts, rows * chunk / chunks);
    ends.push_back(std::max(ends.back(), static_cast<std::size_t>(next - packed.text_starts.begin())));
  }
  ends.push_back(batch.batch_size);
  const auto work = [&](std::size_t chunk) {
    if (ends[chunk] == ends[chunk + 1]) return;
    run_forward_pass(inputs_with(nullptr), ends[chunk], ends[chunk + 1], results);
  };
  if (threads > 1) {
    parallel_for(chunks, work);
  } else {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) work(chunk);
  }
}

}  // namespace gpux_cpu::encoder
