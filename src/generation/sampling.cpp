#include "generation/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

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

// Leaves out all but the first tokens by `is_before`, a strict order, that together have the share p. Few tokens have
// most of it as a rule: only as many as needed are sorted.
template <typename Before>
void keep_share(std::span<float> logits, std::span<const double> shares, double p, const Before& is_before) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > left_out) order.push_back(static_cast<std::uint32_t>(i));
  }
  constexpr std::size_t first_part = 256, growth = 8;
  std::size_t sorted = 0, kept = 0;
  double sum = 0;
  for (std::size_t part = first_part; sorted < order.size() && sum < p; part *= growth) {
    const std::size_t end = std::min(order.size(), sorted + part);
    const auto from = order.begin() + static_cast<std::ptrdiff_t>(sorted);
    std::partial_sort(from, order.begin() + static_cast<std::ptrdiff_t>(end), order.end(), is_before);
    for (; kept < end && sum < p; ++kept) sum += shares[order[kept]];
    sorted = end;
  }
  for (const std::uint32_t token : std::span(order).subspan(kept)) logits[token] = left_out;
}

}  // namespace

bool has_penalties(const Sampling& sampling) noexcept {
  return !sampling.logit_bias.empty() || sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 ||
         sampling.frequency_penalty != 0;
}

void apply_penalties(std::span<float> logits, std::span<const std::uint32_t> tokens, std::size_t prompt_tokens,
                     const Sampling& sampling) {
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token < logits.size()) logits[token] += bias;
  }
  if (sampling.repetition_penalty != 1) {
    const std::set<std::uint32_t> seen(tokens.begin(), tokens.end());
    for (const std::uint32_t token : seen) {
      if (token >= logits.size()) continue;
      float& logit = logits[token];
      logit = logit < 0 ? logit * sampling.repetition_penalty : logit / sampling.repetition_penalty;
    }
  }
  if (sampling.presence_penalty == 0 && sampling.frequency_penalty == 0) return;
  std::map<std::uint32_t, std::size_t> counts;
  for (const std::uint32_t token : tokens.subspan(prompt_tokens)) ++counts[token];
  for (const auto& [token, count] : counts) {
    if (token >= logits.size()) continue;
    logits[token] -= sampling.presence_penalty + sampling.frequency_penalty * static_cast<float>(count);
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
  keep_share(logits, shares, p,
             [&](std::uint32_t a, std::uint32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
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
  keep_share(logits, shares, p, [&](std::uint32_t a, std::uint32_t b) {
    return distances[a] != distances[b] ? distances[a] < distances[b] : a < b;
  });
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

std::uint32_t choose_token(std::span<float> logits, std::span<const std::uint32_t> tokens, std::size_t prompt_tokens,
                           const Sampling& sampling) {
  apply_penalties(logits, tokens, prompt_tokens, sampling);
  if (sampling.temperature == 0) return greedy_token(logits);
  const double share = share_of(sampling.seed, tokens.size() - prompt_tokens);
  if (sampling.top_k == 0 || sampling.top_k >= logits.size()) {
    for (float& logit : logits) logit /= sampling.temperature;
    return sampled_token(logits, share, sampling);
  }
  Candidates candidates = highest_tokens(logits, sampling.temperature, sampling.top_k);
  if (candidates.tokens.empty()) return greedy_token(logits);
  return candidates.tokens[sampled_token(candidates.logits, share, sampling)];
}

}  // namespace gpux::generation
