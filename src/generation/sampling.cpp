#include "generation/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "generation/leading_share.h"

namespace gpux::generation {
namespace {

constexpr float left_out = -std::numeric_limits<float>::infinity();

// Several maxima at once, of vectors of numbers.
float highest(std::span<const float> logits) {
  constexpr std::size_t lanes = 16;
  std::array<float, lanes> maxima;
  maxima.fill(left_out);
  const std::size_t whole = logits.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      maxima[lane] = logits[i + lane] > maxima[lane] ? logits[i + lane] : maxima[lane];
    }
  }
  float most = left_out;
  for (const float maximum : maxima) most = maximum > most ? maximum : most;
  for (const float logit : logits.subspan(whole)) most = logit > most ? logit : most;
  return most;
}

// Softmax, in float64: the sum of a hundred thousand float32 loses digits.
std::vector<double> probabilities(std::span<const float> logits) {
  const double most = highest(logits);
  std::vector<double> shares(logits.size(), 0);
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > left_out)) continue;
    shares[i] = std::exp(static_cast<double>(logits[i]) - most);
    sum += shares[i];
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// Leaves out all but the first tokens by their keys, from 0, that together have the share p; of equal keys the first
// tokens. Of many tokens one pass finds the keys at the border, and only those that have them are compared.
template <typename Key>
void keep_share(std::span<float> logits, std::span<const double> shares, double p, const Key& key) {
  constexpr std::size_t last = 4095;
  constexpr double buckets_per_unit = 128;
  const bool are_many = logits.size() > last;
  const auto bucket_of = [&](std::size_t token) -> std::size_t {
    const double place = are_many ? key(token) * buckets_per_unit : 0;
    return place < static_cast<double>(last) ? static_cast<std::size_t>(place) : last;
  };
  std::size_t border = 0;
  double before = 0;
  if (are_many) {
    std::vector<double> sums(last + 1, 0);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > left_out) sums[bucket_of(i)] += shares[i];
    }
    while (border < last && before + sums[border] < p) before += sums[border++];
  }
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > left_out)) continue;
    const std::size_t bucket = bucket_of(i);
    if (bucket == border) order.push_back(static_cast<std::uint32_t>(i));
    if (bucket > border) logits[i] = left_out;
  }
  const std::size_t kept = leading_share(std::span(order), shares, p - before, [&](std::uint32_t a, std::uint32_t b) {
    return key(a) != key(b) ? key(a) < key(b) : a < b;
  });
  for (const std::uint32_t token : std::span(order).subspan(kept)) logits[token] = left_out;
}

}  // namespace

TokenCounts::Entry& TokenCounts::entry_of(std::uint32_t token) {
  const auto [place, is_new] = places_.emplace(token, entries_.size());
  if (is_new) entries_.push_back({.token = token});
  Entry& entry = entries_[place->second];
  entry.last = size_++;
  return entry;
}

void TokenCounts::add_prompt(std::span<const std::uint32_t> tokens) {
  for (const std::uint32_t token : tokens) (void)entry_of(token);
}

void TokenCounts::add_generated(std::uint32_t token) {
  ++entry_of(token).generated;
}

bool counts_tokens(const Sampling& sampling) noexcept {
  return sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 || sampling.frequency_penalty != 0;
}

bool has_penalties(const Sampling& sampling) noexcept {
  return !sampling.logit_bias.empty() || counts_tokens(sampling);
}

void apply_penalties(std::span<float> logits, const TokenCounts& counts, const Sampling& sampling) {
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token < logits.size()) logits[token] += bias;
  }
  if (!counts_tokens(sampling)) return;
  const std::size_t window = sampling.repetition_window == 0 ? counts.size() : sampling.repetition_window;
  for (const TokenCounts::Entry& entry : counts.entries()) {
    if (entry.token >= logits.size()) continue;
    float& logit = logits[entry.token];
    if (counts.size() - entry.last <= window) {
      logit = logit < 0 ? logit * sampling.repetition_penalty : logit / sampling.repetition_penalty;
    }
    if (entry.generated == 0) continue;
    logit -= sampling.presence_penalty + sampling.frequency_penalty * static_cast<float>(entry.generated);
  }
}

void keep_top_k(std::span<float> logits, std::uint32_t k) {
  if (k == 0 || k >= logits.size()) return;
  std::vector<float> sorted(logits.begin(), logits.end());
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
  const float border = sorted[k - 1];
  for (float& logit : logits) {
    if (logit < border) logit = left_out;
  }
}

void keep_top_p(std::span<float> logits, float p) {
  if (p >= 1) return;
  const std::vector<double> shares = probabilities(logits);
  const float most = highest(logits);
  keep_share(logits, shares, p, [&](std::size_t token) {
    return logits[token] < most ? static_cast<double>(most) - static_cast<double>(logits[token]) : 0;
  });
}

void keep_min_p(std::span<float> logits, float p) {
  if (p <= 0) return;
  const float border = highest(logits) + std::log(p);
  for (float& logit : logits) {
    if (logit < border) logit = left_out;
  }
}

void keep_typical(std::span<float> logits, float p) {
  if (p >= 1) return;
  const std::vector<double> shares = probabilities(logits);
  double entropy = 0;
  for (const double share : shares) {
    if (share > 0) entropy -= share * std::log(share);
  }
  std::vector<double> distances(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) distances[i] = std::abs(-std::log(shares[i]) - entropy);
  keep_share(logits, shares, p, [&](std::size_t token) { return distances[token]; });
}

std::uint32_t greedy_token(std::span<const float> logits) {
  // The part with the highest logit is searched.
  constexpr std::size_t part_size = 1024;
  std::size_t best_part = 0;
  float most = left_out;
  for (std::size_t i = 0; i < logits.size(); i += part_size) {
    const float of_part = highest(logits.subspan(i, std::min(part_size, logits.size() - i)));
    if (!(of_part > most)) continue;
    most = of_part;
    best_part = i;
  }
  if (most == left_out) return 0;
  const auto found = std::find(logits.begin() + static_cast<std::ptrdiff_t>(best_part), logits.end(), most);
  return static_cast<std::uint32_t>(found - logits.begin());
}

std::uint32_t token_at(std::span<const float> logits, double share) {
  const std::vector<double> shares = probabilities(logits);
  double sum = 0;
  std::uint32_t last = greedy_token(logits);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!(shares[i] > 0)) continue;
    sum += shares[i];
    last = static_cast<std::uint32_t>(i);
    if (sum > share) return last;
  }
  return last;  // the sum was rounded to less than 1
}

// SplitMix64 (Steele, Lea, Flood 2014) of the position's place in its sequence.
double share_of(std::uint64_t seed, std::uint64_t position) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15U;
  const auto mixed = [](std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
  };
  const std::uint64_t bits = mixed(mixed(seed + step) + (position + 1) * step);
  constexpr double unit = 0x1p-53;
  return static_cast<double>(bits >> 11U) * unit;
}

namespace {

/// Tokens that may be chosen, in their order.
struct Candidates {
  std::vector<std::uint32_t> tokens;
  std::vector<float> logits;  ///< over the temperature
};

// The k-th highest logit; NaN is never one of them.
float kth_highest(std::span<const float> logits, std::uint32_t k) {
  std::vector<float> heap(k, left_out);  // the lowest one first
  for (const float logit : logits) {
    if (!(logit > heap.front())) continue;
    std::ranges::pop_heap(heap, std::greater<>());
    heap.back() = logit;
    std::ranges::push_heap(heap, std::greater<>());
  }
  return heap.front();
}

// What temperature and keep_top_k() leave, without the others: a vocabulary has a hundred thousand tokens, and the
// steps that follow look at each token several times.
Candidates highest_tokens(std::span<const float> logits, float temperature, std::uint32_t k) {
  const float border = kth_highest(logits, k) / temperature;
  Candidates kept;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i] / temperature;
    if (!(logit >= border)) continue;
    kept.tokens.push_back(static_cast<std::uint32_t>(i));
    kept.logits.push_back(logit);
  }
  return kept;
}

std::uint32_t sampled_token(std::span<float> logits, double share, const Sampling& sampling) {
  keep_top_p(logits, sampling.top_p);
  keep_min_p(logits, sampling.min_p);
  keep_typical(logits, sampling.typical_p);
  return token_at(logits, share);
}

}  // namespace

std::uint32_t choose_token(std::span<float> logits, const TokenCounts& counts, std::uint64_t position,
                           const Sampling& sampling) {
  apply_penalties(logits, counts, sampling);
  if (sampling.temperature == 0) return greedy_token(logits);
  const double share = share_of(sampling.seed, position);
  if (sampling.top_k == 0 || sampling.top_k >= logits.size()) {
    for (float& logit : logits) logit /= sampling.temperature;
    return sampled_token(logits, share, sampling);
  }
  Candidates candidates = highest_tokens(logits, sampling.temperature, sampling.top_k);
  if (candidates.tokens.empty()) return greedy_token(logits);
  return candidates.tokens[sampled_token(candidates.logits, share, sampling)];
}

}  // namespace gpux::generation
