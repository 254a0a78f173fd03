#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "encoder/attention.h"
#include "kernels/activation.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rotary_table.h"
#include "kernels/shared_array.h"

namespace gpux_cpu::encoder {

/// Precision of a layer's matrix products.
struct LayerPrecision {
  Precision query_key_value, others;
};

/// The precisions of a layer in an encoder of `precision` that has `layers_behind` layers after it.
LayerPrecision layer_precision(Precision precision, std::size_t layers_behind) noexcept;

/// A query attends the keys from `left` positions before its own to `right` positions after it.
struct Window {
  std::size_t left = 0, right = 0;

  bool operator==(const Window&) const = default;
};

/// The branches of a layer: x = sum_norm(x + branch_norm(branch(input_norm(x)))), each norm if it is there. Post-norm
/// models (BERT) have sum norms, pre-norm models input norms, Gemma input and branch norms.
struct Layer {
  /// [hidden_size, (num_heads + 2 * num_kv_heads) * head_size]: queries, keys and values, heads side by side.
  Linear query_key_value;
  Linear attention_output;  ///< [num_heads * head_size, hidden_size]
  /// Norms of each head (gamma of head_size elements), or of all heads of a token together (as many as their columns).
  /// Before rotary positions.
  std::optional<Norm> query_norm = {}, key_norm = {};
  std::optional<Norm> attention_input_norm = {}, attention_branch_norm = {}, attention_sum_norm = {};
  /// [hidden_size, intermediate_size]; gated: two halves of intermediate_size columns side by side, of which the first
  /// one is activated, and multiplied by the second one.
  Linear up_projection;
  Linear down_projection;  ///< [intermediate_size, hidden_size]
  Activation activation = Activation::gelu;
  bool gated = false;
  std::optional<Norm> feed_forward_input_norm = {}, feed_forward_branch_norm = {}, feed_forward_sum_norm = {};
  std::optional<std::size_t> rotary_table = {};  ///< index in Weights::rotary_tables
  std::optional<Window> window = {};             ///< without: all keys
  bool causal = false;                           ///< a query attends no key after its position
  float score_scale = 1;                         ///< factor of query * key, and of the disentangled products
  /// Disentangled attention (DeBERTa): the projected relative embeddings, [num_heads, buckets, head_size] each, either
  /// of which may be empty. For a query at position q and a key at position k, bucket = relative_buckets[k - q +
  /// max_relative_positions - 1]: score = (query * key + query * relative_keys[bucket] + key *
  /// relative_queries[bucket]) * score_scale.
  SharedArray<float> relative_keys = {}, relative_queries = {};
};

enum class Pooling : std::uint8_t {
  none,
  cls,    ///< the row of the first token, masked or not
  mean,   ///< mean of the unmasked tokens
  last,   ///< the row of the last unmasked token; 0 without one
  splade  ///< the maximum over the unmasked tokens of log(1 + relu(logits of masked_lm)); 0 without one
};

/// logits = decoder(norm(activation(transform(hidden state)))).
struct MaskedLmHead {
  Linear transform;  ///< [hidden_size, inner size of the decoder]
  Activation activation = Activation::gelu;
  std::optional<Norm> norm = {};
  Linear decoder;               ///< to the vocabulary
  bool has_second_log = false;  ///< the vector is log(1 + that of Pooling::splade)
};

/// How the position ids of tokens are computed, for position embeddings and rotary tables.
enum class PositionIds : std::uint8_t {
  index,           ///< the index in the text, masked tokens counted
  from_pad_token,  ///< tokens that are not pad_token_id count from 1; a token of this id has 0 (RoBERTa)
  from_mask,       ///< unmasked tokens count from 0; a masked token has masked_position_id
  input            ///< Batch::position_ids
};

/// A text encoder, or a decoder whose hidden states are embeddings. Arrays are row-major float32.
struct Weights {
  std::size_t hidden_size = 0, num_heads = 0;
  std::size_t num_kv_heads = 0;    ///< divides num_heads; query head h attends key head h / (num_heads / num_kv_heads)
  std::size_t head_size = 0;       ///< even; any number for Precision::fp32 without rotary positions
  std::size_t embedding_size = 0;  ///< without embedding_projection: hidden_size
  /// [rows, embedding_size]; the last two may be empty. Their sum is a token's row.
  SharedArray<float> word_embeddings = {}, position_embeddings = {}, token_type_embeddings = {};
  float embedding_scale = 1;                ///< factor of word_embeddings (Gemma)
  std::optional<Norm> embedding_norm = {};  ///< over embedding_size
  std::optional<Linear> embedding_projection = {};
  std::optional<Norm> projected_embedding_norm = {};  ///< over hidden_size, after embedding_projection
  bool zero_masked_embeddings = false;                ///< rows of masked tokens are set to 0 after all that (DeBERTa)
  PositionIds position_ids = PositionIds::index;
  std::int64_t pad_token_id = 0;        ///< id of the padding token, for PositionIds::from_pad_token
  std::int64_t masked_position_id = 0;  ///< position id of masked tokens, for PositionIds::from_mask
  std::vector<RotaryTable> rotary_tables = {};
  /// Added to the scores (MPNet, T5): [num_heads, 2 * max_relative_positions - 1], by key position - query position +
  /// max_relative_positions - 1; may be empty.
  SharedArray<float> relative_bias = {};
  SharedArray<float> alibi_slopes = {};              ///< [num_heads]: -slope * |key - query| is added; may be empty
  SharedArray<std::uint32_t> relative_buckets = {};  ///< [2 * max_relative_positions - 1]; for disentangled layers
  /// Texts are not longer than this if relative_bias or relative_buckets is there.
  std::size_t max_relative_positions = 0;
  MaskedKeys masked_keys = {};
  /// A masked query has no key (DeBERTa's mask of query and key): MaskedKeys decides.
  bool mask_excludes_queries = false;
  /// If set, there is no attention_mask: all tokens are unmasked but those of this id.
  std::optional<std::int64_t> masked_id = {};
  bool mask_from_front = false;    ///< the first N tokens are unmasked, N being the sum of the mask
  std::vector<Layer> layers = {};  ///< layers may share weights: copies of a Linear, Norm or array share its memory
  std::optional<Norm> final_norm = {};
  Pooling pooling = Pooling::mean;
  std::optional<MaskedLmHead> masked_lm = {};  ///< set for Pooling::splade
  bool normalize = false;                      ///< vectors, to length 1
};

/// Elements of a vector: hidden_size, or the vocabulary of the decoder of Pooling::splade.
std::size_t vector_size(const Weights& weights) noexcept;

/// Number of position ids that the tables have rows for; nullopt: any.
std::optional<std::size_t> max_position_ids(const Weights& weights) noexcept;

}  // namespace gpux_cpu::encoder
