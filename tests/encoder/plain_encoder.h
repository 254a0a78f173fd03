#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "encoder/encoder.h"

namespace gpux_encoder {

struct PlainLinear {
  std::size_t inner = 0, columns = 0;
  std::vector<float> weights, bias;  ///< [inner, columns], [columns]
};

struct PlainLayer {
  PlainLinear query_key_value, attention_output, up_projection, down_projection;
  Norm attention_sum_norm, feed_forward_sum_norm;
};

/// An encoder as its definition has it: every row of every text through every layer, in double.
struct PlainEncoder {
  Weights settings;  ///< all but the layers
  std::vector<PlainLayer> layers;
  float score_scale = 1;

  struct Results {
    /// [batch_size, hidden_size], [batch_size, sequence_length, hidden_size]
    std::vector<float> vectors, hidden_states;
  };

  /// `batch` is one that Encoder::run accepts.
  [[nodiscard]] Results run(const Batch& batch) const;

  /// The same weights for an Encoder.
  [[nodiscard]] Weights weights(Precision precision) const;
};

struct PlainSizes {
  std::size_t hidden_size = 40, num_heads = 2, intermediate_size = 48, layers = 2, vocabulary_size = 40,
              token_types = 2, positions = 24;
};

/// Random weights; pooling, mask and positions are those of a fresh Weights.
PlainEncoder random_encoder(const PlainSizes& sizes, std::mt19937_64& engine);

}  // namespace gpux_encoder
