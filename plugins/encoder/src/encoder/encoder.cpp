#include "encoder/encoder.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "encoder/forward_pass.h"
#include "encoder/packed_tokens.h"

namespace gpux_encoder {
namespace {

// So many rows go through all layers together: what they are multiplied by is then read once for all of them, and what
// comes of them stays in the cache.
constexpr std::size_t rows_of_a_chunk = 128;

}  // namespace

Encoder::Encoder(Weights weights, const Kernels& kernels)
    : weights_(std::move(weights)), kernels_(kernels), rooms_(std::make_unique<Rooms>()) {}

Encoder::~Encoder() = default;

void Encoder::run(const Batch& given, std::size_t threads, const ParallelFor& parallel_for, const Results& results,
                  const std::atomic<bool>* stopped) const {
  const bool wants_first = results.vectors != nullptr && weights_.pooling == Pooling::cls;
  require_valid(given, weights_, wants_first);
  if (given.texts == 0) return;
  Batch batch = given;
  std::vector<std::int64_t> mask;
  if (weights_.masked_id) {
    mask.resize(given.texts * given.length);
    const auto counts = [this](std::int64_t id) { return id == *weights_.masked_id ? 0 : 1; };
    std::transform(given.ids, given.ids + mask.size(), mask.begin(), counts);
    batch.mask = mask.data();
  }
  if (weights_.mask_from_front && batch.mask != nullptr) {
    if (mask.empty()) mask.assign(batch.mask, batch.mask + batch.texts * batch.length);
    for (std::size_t text = 0; text < batch.texts; ++text) {
      const auto first = mask.begin() + static_cast<std::ptrdiff_t>(text * batch.length);
      std::sort(first, first + static_cast<std::ptrdiff_t>(batch.length), std::greater<>());
    }
    batch.mask = mask.data();
  }
  const Packed packed = pack(batch, weights_.padding,
                             results.hidden != nullptr ? Others::all
                             : wants_first             ? Others::first_of_text
                                                       : Others::none);
  const std::size_t rows = packed.ids.size();
  const std::size_t chunks =
      std::min(batch.texts, std::max({threads, std::size_t{1}, (rows + rows_of_a_chunk - 1) / rows_of_a_chunk}));
  // Fewer texts than threads: all of them share out each step.
  if (chunks < threads) {
    Team::run(threads, parallel_for, [&](Team& team) {
      run_pass(weights_, kernels_, *rooms_, packed, batch.length, 0, batch.texts, &team, stopped, results);
    });
    return;
  }
  std::vector<std::size_t> ends{0};
  for (std::size_t chunk = 1; chunk < chunks; ++chunk) {
    const auto place = std::ranges::lower_bound(packed.starts, rows * chunk / chunks);
    ends.push_back(std::max(ends.back(), static_cast<std::size_t>(place - packed.starts.begin())));
  }
  ends.push_back(batch.texts);
  const auto work = [&](std::size_t chunk) {
    if (ends[chunk] == ends[chunk + 1]) return;
    run_pass(weights_, kernels_, *rooms_, packed, batch.length, ends[chunk], ends[chunk + 1], nullptr, stopped,
             results);
  };
  if (threads > 1) {
    parallel_for(chunks, work);
  } else {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) work(chunk);
  }
}

}  // namespace gpux_encoder
