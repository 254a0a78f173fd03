#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/shared_array.h"

namespace gpux_encoder {

struct Norm {
  Numbers<float> gamma, beta;
  float epsilon = 1e-12F;
};

enum class Activation : std::uint8_t { gelu, tanh_gelu };

/// Of a layer's products.
struct LayerPrecision {
  Precision query_key_value, others;
};

/// Those of a layer in an encoder of `precision`, where so many layers are behind it.
LayerPrecision layer_precision(Precision precision, std::size_t layers_behind) noexcept;

struct Layer {
  Linear query_key_value;  ///< beside each other
  Linear attention_out;
  Norm attention_norm;
  Linear up_projection, down_projection;
  Activation activation = Activation::gelu;  ///< between them
  Norm output_norm;
  float score_scale = 1;  ///< of query * key
};

enum class Pooling : std::uint8_t {
  none,
  cls,  ///< the row of the first place, counted or not
  mean
};

/// A text encoder of the BERT family: post-norm layers, learned positions.
struct Weights {
  std::size_t hidden = 0, heads = 0;
  Numbers<float> words, positions, types;  ///< rows of `hidden`; `types` may be empty
  /// Where it is set, a token's position is not its place, but how many tokens there are up to it that are not this
  /// one, and 0 for this one.
  std::optional<std::int64_t> padding;
  /// Added to the scores of each head and pair of places, [heads, places, places]; may be empty.
  Numbers<float> relative;
  std::size_t relative_places = 0;
  Norm embedding_norm;
  HiddenKeys hidden_keys;
  /// Where it is set, there is no mask: all tokens count but those of this id.
  std::optional<std::int64_t> masked_id;
  bool mask_from_front = false;  ///< as many tokens count as the mask has, but the first ones
  std::vector<Layer> layers;
  Pooling pooling = Pooling::mean;
  bool normalize = false;
};

}  // namespace gpux_encoder
