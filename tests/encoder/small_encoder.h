#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "encoder/encoder.h"

/// An encoder of random weights that takes no time, and texts for it.
namespace gpux_cpu::encoder {

inline constexpr std::size_t hidden_size = 64, num_heads = 2, intermediate_size = 96, layers = 3, vocabulary_size = 50,
                             max_length = 40;

class Random {
 public:
  std::vector<float> values(std::size_t count, float spread, float middle = 0) {
    std::normal_distribution<float> normal(middle, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(engine_);
    return values;
  }

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(end));
  }

 private:
  std::mt19937_64 engine_{7};
};

inline Norm norm(Random& random) {
  return {random.values(hidden_size, 0.1F, 1), random.values(hidden_size, 0.1F), 1e-12F};
}

inline Linear linear(Random& random, Precision precision, std::size_t inner, std::size_t columns) {
  const std::vector<float> weights = random.values(inner * columns, 0.1F);
  const PlainWeights plain{weights.data(), inner, columns, false};
  return {precision, std::span(&plain, 1), random.values(columns, 0.1F)};
}

inline Weights small_model(Precision precision) {
  Random random;
  Weights weights{.hidden_size = hidden_size,
                  .num_heads = num_heads,
                  .num_kv_heads = num_heads,
                  .head_size = hidden_size / num_heads,
                  .embedding_size = hidden_size};
  weights.word_embeddings = random.values(vocabulary_size * hidden_size, 1);
  weights.position_embeddings = random.values(max_length * hidden_size, 0.5F);
  weights.token_type_embeddings = random.values(2 * hidden_size, 0.5F);
  weights.embedding_norm = norm(random);
  for (std::size_t behind = layers; behind-- > 0;) {
    const auto [query_key_value, others] = layer_precision(precision, behind);
    weights.layers.push_back({.query_key_value = linear(random, query_key_value, hidden_size, 3 * hidden_size),
                              .attention_output = linear(random, others, hidden_size, hidden_size),
                              .attention_sum_norm = norm(random),
                              .up_projection = linear(random, others, hidden_size, intermediate_size),
                              .down_projection = linear(random, others, intermediate_size, hidden_size),
                              .feed_forward_sum_norm = norm(random),
                              .score_scale = 0.2F});
  }
  weights.pooling = Pooling::mean;
  weights.normalize = true;
  return weights;
}

/// Texts of several lengths with holes in their masks.
struct Texts {
  explicit Texts(std::size_t count) {
    Random random;
    for (std::size_t i = 0; i < count * max_length; ++i) {
      const std::size_t position = i % max_length, length = 1 + (i / max_length * 7) % max_length;
      input_ids.push_back(random.below(vocabulary_size));
      token_type_ids.push_back(random.below(2));
      attention_mask.push_back(position < length && (position == 0 || random.below(5) != 0) ? 1 : 0);
    }
  }

  [[nodiscard]] Batch batch(std::size_t first, std::size_t count) const {
    return {count, max_length, input_ids.data() + first * max_length, attention_mask.data() + first * max_length,
            token_type_ids.data() + first * max_length};
  }

  std::vector<std::int64_t> input_ids, token_type_ids, attention_mask;
};

inline void one_after_the_other(std::size_t parts, const std::function<void(std::size_t)>& work) {
  for (std::size_t part = parts; part-- > 0;) work(part);
}

inline std::vector<float> vectors_of(const Encoder& encoder, const Batch& batch, std::size_t threads) {
  std::vector<float> vectors(batch.batch_size * hidden_size);
  encoder.run(batch, threads, one_after_the_other, {vectors.data(), nullptr});
  return vectors;
}

}  // namespace gpux_cpu::encoder
