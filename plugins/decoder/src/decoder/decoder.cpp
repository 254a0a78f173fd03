#include "decoder/decoder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "decoder/pass.h"

namespace gpux_cpu::decoder {
namespace {

// What they need is memory of this many rows, and stays in the caches.
constexpr std::size_t tokens_per_pass = 512;

/// The tokens of each row before the run.
std::vector<std::size_t> past_tokens(const DecoderBatch& batch, const DecoderWeights& weights) {
  std::vector<std::size_t> past(batch.batch);
  // As GroupQueryAttention: a mask that is not longer than the tokens has no past.
  if (batch.total < batch.sequence) {
    throw InvalidInput("attention_mask has " + std::to_string(batch.total) + " columns for " +
                       std::to_string(batch.sequence) + " tokens; accepted: one for each token and its past");
  }
  for (std::size_t row = 0; row < batch.batch && batch.total > batch.sequence; ++row) {
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < batch.total; ++i) {
      const std::int64_t bit = batch.attention_mask[row * batch.total + i];
      if (bit != 0 && bit != 1) {
        throw InvalidInput("attention_mask has " + std::to_string(bit) + "; accepted: 0 and 1");
      }
      tokens += bit;
    }
    if (tokens < static_cast<std::int64_t>(batch.sequence)) {
      throw InvalidInput("attention_mask has " + std::to_string(tokens) + " tokens in row " + std::to_string(row) +
                         "; accepted: its past and the " + std::to_string(batch.sequence) + " of this run");
    }
    past[row] = static_cast<std::size_t>(tokens) - batch.sequence;
  }
  const std::size_t most = past.empty() ? 0 : *std::ranges::max_element(past);
  if (most > batch.past_length) {
    throw InvalidInput("attention_mask has " + std::to_string(most) + " tokens before this run, but past_key_values " +
                       std::to_string(batch.past_length));
  }
  const std::size_t positions = most + batch.sequence;
  if (weights.max_positions != 0 && positions > weights.max_positions) {
    throw InvalidInput("a row has " + std::to_string(positions) + " tokens; accepted: up to " +
                       std::to_string(weights.max_positions));
  }
  if (positions > batch.present_length) throw InvalidInput("present has no room for the tokens of this run");
  return past;
}

void check_ids(const DecoderBatch& batch, std::size_t vocabulary) {
  for (std::size_t i = 0; i < batch.batch * batch.sequence; ++i) {
    const std::int64_t id = batch.input_ids[i];
    if (id < 0 || id >= static_cast<std::int64_t>(vocabulary)) {
      throw InvalidInput("input_ids has " + std::to_string(id) + "; accepted: 0 to " + std::to_string(vocabulary - 1));
    }
  }
}

// Where a run's caches are not those before it. Behind the tokens are zeros, as ONNX Runtime leaves them.
void copy_cache(const DecoderBatch& batch, const DecoderWeights& weights, std::span<const std::size_t> past,
                Team& team) {
  const std::size_t row_bytes = cache_row_bytes(weights.cache_form, weights.head_size);

  struct Copy {
    const std::byte* from;
    std::byte* to;
  };

  std::vector<Copy> copies;
  for (const LayerCache& layer : batch.layers) {
    for (const auto& [from, to] :
         {std::pair(layer.past_keys, layer.present_keys), std::pair(layer.past_values, layer.present_values)}) {
      if (from != to) copies.push_back({static_cast<const std::byte*>(from), static_cast<std::byte*>(to)});
    }
  }
  if (copies.empty()) return;
  team.run_parts(copies.size(), [&](std::size_t part) {
    const auto [from, to] = copies[part];
    for (std::size_t head = 0; head < batch.batch * weights.kv_heads; ++head) {
      const std::size_t kept = past[head / weights.kv_heads] * row_bytes, all = batch.present_length * row_bytes;
      if (kept > 0) std::memcpy(to + head * all, from + head * batch.past_length * row_bytes, kept);
      std::memset(to + head * all + kept, 0, all - kept);
    }
  });
}

}  // namespace

RowFormats DecoderLayer::attention_formats() const noexcept {
  RowFormats formats;
  for (const PlacedProjection& placed : query_key_value) formats.add(placed.projection.format());
  return formats;
}

RowFormats DecoderLayer::feed_forward_formats() const noexcept {
  RowFormats formats;
  formats.add(up.format());
  if (gate) formats.add(gate->format());
  return formats;
}

std::size_t DecoderWeights::bytes_per_step() const noexcept {
  std::size_t bytes = language_head.bytes();
  for (const DecoderLayer& layer : layers) {
    for (const PlacedProjection& placed : layer.query_key_value) bytes += placed.projection.bytes();
    bytes += layer.attention_output.bytes() + layer.up.bytes() + layer.down.bytes();
    if (layer.gate) bytes += layer.gate->bytes();
  }
  return bytes;
}

std::size_t DecoderWeights::products_per_token() const noexcept {
  const auto products = [](const Projection& projection) { return projection.format().inner * projection.columns(); };
  std::size_t all = products(language_head);
  for (const DecoderLayer& layer : layers) {
    for (const PlacedProjection& placed : layer.query_key_value) all += products(placed.projection);
    all += products(layer.attention_output) + products(layer.up) + products(layer.down);
    if (layer.gate) all += products(*layer.gate);
  }
  return all;
}

Decoder::Decoder(DecoderWeights weights)
    : weights_(std::move(weights)), kernels_{block_kernels(), kernels()}, scratch_(std::make_unique<Scratch>()) {}

Decoder::~Decoder() = default;

void Decoder::run(const DecoderBatch& batch, std::size_t threads, const ParallelFor& parallel_for,
                  const std::atomic<bool>* stopped) const {
  check_ids(batch, weights_.vocabulary);
  const std::vector<std::size_t> past = past_tokens(batch, weights_);
  if (batch.batch == 0) return;
  if (batch.sequence == 0) throw InvalidInput("input_ids has no tokens; accepted: 1 or more for each row");
  Team::run(threads, parallel_for, [&](Team& team) {
    copy_cache(batch, weights_, past, team);
    const PassInputs inputs{weights_, kernels_, *scratch_, team, batch, stopped};
    std::vector<TokenRow> tokens;
    std::vector<std::size_t> outputs;
    std::vector<float*> logits;
    const auto flush = [&] {
      run_pass(inputs, tokens, outputs, logits);
      tokens.clear();
      outputs.clear();
      logits.clear();
    };
    for (std::size_t row = 0; row < batch.batch; ++row) {
      for (std::size_t i = 0; i < batch.sequence; ++i) {
        if (tokens.size() == tokens_per_pass) flush();
        if (batch.has_all_logits || i + 1 == batch.sequence) {
          outputs.push_back(tokens.size());
          logits.push_back(batch.logits +
                           (batch.has_all_logits ? row * batch.sequence + i : row) * weights_.vocabulary);
        }
        tokens.push_back({row, past[row] + i, batch.input_ids[row * batch.sequence + i]});
      }
    }
    flush();
  });
}

}  // namespace gpux_cpu::decoder
