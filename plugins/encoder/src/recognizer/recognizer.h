#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "recognizer/expression.h"
#include "recognizer/graph.h"

namespace gpux_encoder {

struct RecognizedLayerNorm {
  const Constant *gamma = nullptr, *beta = nullptr;
  float epsilon = 0;
};

struct RecognizedLinear {
  const Constant* weights = nullptr;  ///< [inner, columns]; transposed: [columns, inner]
  bool transposed = false;
  std::size_t first_column = 0, columns = 0;  ///< the part of the columns that is used
  const Constant* bias = nullptr;             ///< [columns] from first_bias on
  std::size_t first_bias = 0;

  [[nodiscard]] std::size_t inner() const { return static_cast<std::size_t>(weights->shape[transposed ? 1 : 0]); }
};

/// Which tokens are unmasked.
struct MaskSource {
  std::string input;                      ///< 1 for an unmasked token, else 0; empty: all are unmasked
  std::optional<std::int64_t> masked_id;  ///< set if `input` is input_ids: all ids but this one are unmasked

  bool operator==(const MaskSource&) const = default;
};

/// How a mask excludes keys from attention.
struct RecognizedMask {
  MaskSource source;
  MaskedKeys keys;
  bool from_front = false;  ///< as Weights::mask_from_front

  bool operator==(const RecognizedMask&) const = default;
};

/// An embedding table, [rows, hidden_size], whatever other axes of size 1 the constant has.
struct RecognizedTable {
  const Constant* rows = nullptr;
  std::size_t first = 0;  ///< the row of index 0

  [[nodiscard]] std::size_t hidden_size() const { return static_cast<std::size_t>(rows->shape.back()); }
};

struct RecognizedEmbeddings {
  std::string input_ids, token_type_ids;  ///< inputs; token_type_ids may be empty
  RecognizedTable word_embeddings, position_embeddings;
  std::size_t max_positions = 0;             ///< rows of position_embeddings that are used
  RecognizedTable token_type_embeddings;     ///< without token_type_ids: one row
  std::optional<std::int64_t> pad_token_id;  ///< as Weights::pad_token_id
};

struct RecognizedLayer {
  RecognizedLinear query, key, value, attention_output, up_projection, down_projection;
  RecognizedLayerNorm attention_layer_norm, output_layer_norm;
  float score_scale = 1;
  Activation activation = Activation::gelu;
};

/// An encoder in a graph. Points into the graph.
struct RecognizedEncoder {
  RecognizedEmbeddings embeddings;
  RecognizedMask mask;
  std::string vectors, hidden_states;  ///< outputs, one of which may be empty
  /// Added to the attention scores, a function of the indices [batch, head, query, key]; null: none.
  ExpressionPointer position_bias;
  RecognizedLayerNorm embedding_layer_norm;
  std::size_t num_heads = 0;
  std::vector<RecognizedLayer> layers;
  Pooling pooling = Pooling::none;
  bool normalize = false;
  std::vector<std::size_t> nodes;  ///< the nodes that it consists of
};

/// Recognises an encoder by deriving facts about each value, independent of the names and the order of nodes. Empty if
/// there is none; `reason` then says why, in a sentence that names the first node that was not understood. Pure.
std::optional<RecognizedEncoder> recognize(const Graph& graph, std::string& reason);

/// The weights of the encoder, copied from the graph's constants and packed.
Weights weights_of(const RecognizedEncoder& found, Precision precision);

}  // namespace gpux_encoder
