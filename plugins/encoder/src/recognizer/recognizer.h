#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "graph/graph.h"
#include "recognizer/expression.h"

namespace gpux_cpu::encoder {

/// A norm of `size` elements. gamma: null for 1; beta: null for 0.
struct RecognizedNorm {
  NormKind kind = NormKind::layer_norm;
  const Constant *gamma = nullptr, *beta = nullptr;
  float epsilon = 0;
  std::size_t size = 0;

  bool operator==(const RecognizedNorm&) const = default;
};

struct RecognizedLinear {
  const Constant* weights = nullptr;  ///< [inner, columns]; transposed: [columns, inner]
  bool transposed = false;
  std::size_t first_column = 0, columns = 0;  ///< the part of the columns that is used
  const Constant* bias = nullptr;             ///< [columns] from first_bias on
  std::size_t first_bias = 0;

  [[nodiscard]] std::size_t inner() const { return static_cast<std::size_t>(weights->shape[transposed ? 1 : 0]); }

  bool operator==(const RecognizedLinear&) const = default;
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
  bool from_front = false;        ///< as Weights::mask_from_front
  bool excludes_queries = false;  ///< as Weights::mask_excludes_queries

  bool operator==(const RecognizedMask&) const = default;
};

/// An embedding table, [rows, embedding_size], whatever other axes of size 1 the constant has.
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
  std::optional<std::int64_t> pad_token_id;  ///< as Weights::pad_token_id, of PositionIds::from_pad_token
  float scale = 1;                           ///< factor of word_embeddings
};

/// Rotary positions. The angle of pair i at a position is position * inverse_frequencies[i]; without these, cosine and
/// sine are elements of tables: those of pair i at `cosine_elements[i] + position * cosine_stride`.
struct RecognizedRotary {
  std::size_t dimensions = 0;
  bool interleaved = false;
  double attention_factor = 1;
  std::vector<double> inverse_frequencies;
  const Constant *cosines = nullptr, *sines = nullptr;
  std::vector<std::size_t> cosine_elements, sine_elements;
  std::size_t cosine_stride = 0, sine_stride = 0, positions = 0;

  bool operator==(const RecognizedRotary&) const = default;
};

/// Added to the attention scores. A function of the indices [batch, head, query, key] that depends only on the head and
/// on key - query, known for `positions` positions.
struct RecognizedBias {
  ExpressionPointer expression;
  std::size_t positions = 0;  ///< 0: all
};

/// The terms of disentangled attention: query * relative_keys[bucket] + key * relative_queries[bucket]. The tables are
/// [num_heads, buckets, head_size], elements of expressions of the indices [head, bucket, column].
struct RecognizedDisentangled {
  ExpressionPointer relative_keys, relative_queries;  ///< either may be null
  std::size_t buckets = 0;
  ExpressionPointer bucket;  ///< bucket as a function of the indices [batch, head, query, key]
};

struct RecognizedLayer {
  RecognizedLinear query, key, value, attention_output, up_projection, down_projection;
  std::optional<RecognizedLinear> gate;  ///< set if gated: activation(gate) * up_projection
  std::optional<RecognizedNorm> query_norm, key_norm;
  std::optional<RecognizedNorm> attention_input_norm, attention_branch_norm, attention_sum_norm;
  std::optional<RecognizedNorm> feed_forward_input_norm, feed_forward_branch_norm, feed_forward_sum_norm;
  std::optional<RecognizedRotary> rotary;
  std::optional<std::size_t> left, right;  ///< how many positions before and after a query are attended; empty: all
  std::optional<RecognizedDisentangled> disentangled;
  float score_scale = 1;
  Activation activation = Activation::gelu;
};

struct RecognizedMaskedLm {
  RecognizedLinear transform, decoder;
  Activation activation = Activation::gelu;
  std::optional<RecognizedNorm> norm;
  bool has_second_log = false;  ///< as MaskedLmHead::has_second_log
};

/// An encoder in a graph. Points into the graph, and into `constants`.
struct RecognizedEncoder {
  RecognizedEmbeddings embeddings;
  RecognizedMask mask;
  bool zero_masked_embeddings = false;
  std::string vectors, hidden_states;  ///< outputs, one of which may be empty
  std::optional<RecognizedBias> bias;  ///< attention bias of all layers
  std::optional<RecognizedNorm> embedding_norm, projected_embedding_norm, final_norm;
  std::optional<RecognizedLinear> embedding_projection;
  std::size_t num_heads = 0, num_kv_heads = 0, head_size = 0;
  std::vector<RecognizedLayer> layers;
  Pooling pooling = Pooling::none;
  std::optional<RecognizedMaskedLm> masked_lm;
  bool normalize = false;
  std::vector<std::size_t> nodes;  ///< the nodes that it consists of
  /// Constants that are calculated from the graph's.
  std::shared_ptr<std::deque<std::vector<float>>> owned_data;
  std::shared_ptr<std::deque<Constant>> owned_constants;

  [[nodiscard]] std::size_t hidden_size() const { return layers.empty() ? 0 : layers.front().attention_output.columns; }
};

/// Recognises an encoder by deriving facts about each value, independent of the names and the order of nodes. Empty if
/// there is none; `reason` then says why, in a sentence that names the first node that was not understood. Pure.
std::optional<RecognizedEncoder> recognize(const Graph& graph, std::string& reason);

/// The weights of the encoder, copied from the graph's constants and packed.
Weights weights_of(const RecognizedEncoder& found, Precision precision);

}  // namespace gpux_cpu::encoder
