#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/shared_array.h"

namespace gpux_encoder {

struct LayerNorm {
  SharedArray<float> gamma, beta;
  float epsilon = 1e-12F;
};

enum class Activation : std::uint8_t { gelu, tanh_gelu };

/// Of a layer's matrix products.
struct LayerPrecision {
  Precision query_key_value, others;
};

/// The precisions of a layer in an encoder of `precision` that has `layers_behind` layers after it.
LayerPrecision layer_precision(Precision precision, std::size_t layers_behind) noexcept;

struct Layer {
  Linear query_key_value;  ///< the three projections side by side
  Linear attention_output;
  LayerNorm attention_layer_norm;
  Linear up_projection, down_projection;
  Activation activation = Activation::gelu;  ///< between them
  LayerNorm output_layer_norm;
  float score_scale = 1;  ///< of query * key
};

enum class Pooling : std::uint8_t {
  none,
  cls,  ///< the row of the first token, masked or not
  mean
};

/// A text encoder of the BERT family: post-norm layers, learned positions.
struct Weights {
  std::size_t hidden_size = 0, num_heads = 0;
  /// [rows, hidden_size]; token_type_embeddings may be empty.
  SharedArray<float> word_embeddings, position_embeddings, token_type_embeddings;
  /// If set, position_ids count the tokens that are not this id, from 1; a token of this id has position 0 (RoBERTa).
  std::optional<std::int64_t> pad_token_id;
  /// Added to the attention scores, [num_heads, max_bias_positions, max_bias_positions]; may be empty.
  SharedArray<float> position_bias;
  std::size_t max_bias_positions = 0;
  LayerNorm embedding_layer_norm;
  MaskedKeys masked_keys;
  /// If set, there is no attention_mask: all tokens are unmasked but those of this id.
  std::optional<std::int64_t> masked_id;
  bool mask_from_front = false;  ///< the first N tokens are unmasked, N being the sum of the mask
  std::vector<Layer> layers;
  Pooling pooling = Pooling::mean;
  bool normalize = false;
};

}  // namespace gpux_encoder
