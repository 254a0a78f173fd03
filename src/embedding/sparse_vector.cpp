#include "embedding/sparse_vector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

namespace gpux::embedding {
namespace {

// Drops all but the largest weights; the order of the indices stays.
void keep_largest(Embedding& vector, std::size_t count) {
  if (count == 0 || count >= vector.values.size()) return;
  std::vector<std::size_t> order(vector.values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto is_larger = [&](std::size_t a, std::size_t b) {
    return vector.values[a] != vector.values[b] ? vector.values[a] > vector.values[b] : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(order.begin(), end, order.end(), is_larger);
  std::sort(order.begin(), end);
  Embedding kept;
  for (auto position = order.begin(); position != end; ++position) {
    kept.indices.push_back(vector.indices[*position]);
    kept.values.push_back(vector.values[*position]);
  }
  vector = std::move(kept);
}

float splade_weight(float score, const checkpoint::SpladePooling& pooling) {
  const float weight = std::log1p(std::max(score, 0.0F));
  return pooling.has_second_log ? std::log1p(weight) : weight;
}

}  // namespace

Embedding sparse_from_vocabulary(std::span<const float> weights, const SparseLimits& limits) {
  Embedding vector;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0 || !(weights[i] > limits.threshold || limits.threshold == 0)) continue;
    vector.indices.push_back(static_cast<std::uint32_t>(i));
    vector.values.push_back(weights[i]);
  }
  keep_largest(vector, limits.top_k);
  return vector;
}

Embedding sparse_from_logits(std::span<const float> logits, std::size_t tokens,
                             const checkpoint::SpladePooling& pooling, const SparseLimits& limits) {
  using Strategy = checkpoint::SpladePooling::Strategy;
  const std::size_t vocabulary = logits.size() / tokens;
  const bool is_sum = pooling.strategy == Strategy::sum;
  // The activation rises with the score: of a maximum it is needed once.
  std::vector<float> pooled(vocabulary, is_sum ? 0 : -std::numeric_limits<float>::infinity());
  for (std::size_t token = 0; token < tokens; ++token) {
    const std::span<const float> scores = logits.subspan(token * vocabulary, vocabulary);
    for (std::size_t i = 0; i < vocabulary; ++i) {
      pooled[i] = is_sum ? pooled[i] + splade_weight(scores[i], pooling) : std::max(pooled[i], scores[i]);
    }
  }
  if (!is_sum) {
    for (float& score : pooled) score = splade_weight(score, pooling);
  }
  return sparse_from_vocabulary(pooled, limits);
}

Embedding sparse_from_tokens(std::span<const float> weights, std::span<const std::uint32_t> ids,
                             std::span<const std::uint32_t> left_out, const SparseLimits& limits) {
  std::map<std::uint32_t, float> largest;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!(weights[i] > limits.threshold) || std::binary_search(left_out.begin(), left_out.end(), ids[i])) continue;
    float& weight = largest[ids[i]];
    weight = std::max(weight, weights[i]);
  }
  Embedding vector;
  for (const auto& [id, weight] : largest) {
    vector.indices.push_back(id);
    vector.values.push_back(weight);
  }
  keep_largest(vector, limits.top_k);
  return vector;
}

float sparse_product(const Embedding& left, const Embedding& right) {
  double sum = 0;
  std::size_t i = 0, j = 0;
  while (i < left.indices.size() && j < right.indices.size()) {
    if (left.indices[i] == right.indices[j]) {
      sum += double{left.values[i++]} * double{right.values[j++]};
    } else if (left.indices[i] < right.indices[j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return static_cast<float>(sum);
}

}  // namespace gpux::embedding
