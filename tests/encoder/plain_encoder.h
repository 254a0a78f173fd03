#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include "encoder/encoder.h"

namespace gpux_cpu::encoder {

struct PlainLinear {
  std::size_t inner = 0, columns = 0;
  std::vector<float> weights, bias;  ///< [inner, columns], [columns]
};

struct PlainLayer {
  PlainLinear query_key_value, attention_output, up_projection, down_projection;
  Layer settings;  ///< all but the matrices
};

struct PlainMaskedLmHead {
  PlainLinear transform, decoder;
  Activation activation = Activation::gelu;
  std::optional<Norm> norm;
};

/// An encoder as its definition has it: every row of every text through every layer, in double.
struct PlainEncoder {
  Weights settings;  ///< all but the layers and matrices
  std::optional<PlainLinear> embedding_projection;
  std::vector<PlainLayer> layers;
  std::optional<PlainMaskedLmHead> masked_lm;

  struct Results {
    /// [batch_size, vector_size], [batch_size, sequence_length, hidden_size]
    std::vector<float> vectors, hidden_states;
  };

  [[nodiscard]] std::size_t vector_size() const {
    return masked_lm ? masked_lm->decoder.columns : settings.hidden_size;
  }

  /// `batch` is one that Encoder::run accepts.
  [[nodiscard]] Results run(const Batch& batch) const;

  /// The same weights for an Encoder. Layers whose matrices are the same objects' copies do not share memory.
  [[nodiscard]] Weights weights(Precision precision) const;
};

struct PlainSizes {
  std::size_t hidden_size = 40, num_heads = 2, intermediate_size = 48, layers = 2, vocabulary_size = 40,
              token_types = 2, positions = 24;
};

/// Random weights of BERT; pooling, mask and positions are those of a fresh Weights.
PlainEncoder random_encoder(const PlainSizes& sizes, std::mt19937_64& engine);

}  // namespace gpux_cpu::encoder
