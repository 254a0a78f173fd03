#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "kernels/linear.h"
#include "kernels/shared_array.h"
#include "kernels/team.h"

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

/// Texts as an encoder's inputs have them: `texts` rows of `length`; what the mask leaves out is not computed.
struct Batch {
  std::size_t texts = 0, length = 0;
  const std::int64_t* ids = nullptr;
  const std::int64_t* mask = nullptr;   ///< null: all count
  const std::int64_t* types = nullptr;  ///< null: 0
};

/// Somebody asked a run to end.
struct Stopped {};

/// A batch that this encoder does not accept: one line that names the value and what would be accepted.
class InvalidBatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Encoder {
 public:
  explicit Encoder(Weights weights, const Kernels& kernels);
  ~Encoder();

  [[nodiscard]] const Weights& weights() const noexcept { return weights_; }

  /// What a run gives; null where it is not wanted.
  struct Results {
    float* vectors = nullptr;  ///< [texts, hidden]; the mean over no token is 0
    float* hidden = nullptr;   ///< [texts, length, hidden], of the tokens that do not count, too
  };

  /// Several threads may call at once; the room that they need is kept for later calls.
  /// `threads`: how many parts are worth having. `stopped`, where it is not null, is looked at before each layer.
  /// A batch may have no text, texts without a token, and texts of which no token counts. Throws InvalidBatch for ids,
  /// types, mask values and lengths that the model does not have, of tokens that do not count as well, and for texts
  /// without a first token where Pooling::cls takes it; throws Stopped. The results are then of no use.
  void run(const Batch& batch, std::size_t threads, const ParallelFor& parallel_for, const Results& results,
           const std::atomic<bool>* stopped = nullptr) const;

  struct Rooms;

 private:
  Weights weights_;
  const Kernels& kernels_;
  std::unique_ptr<Rooms> rooms_;
};

}  // namespace gpux_encoder
