#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decoder/weights.h"
#include "graph/graph.h"

namespace gpux_cpu::decoder {

/// gamma: of `size` elements; beta: null for 0.
struct RecognizedNorm {
  NormKind kind = NormKind::rms_norm;
  const Constant *gamma = nullptr, *beta = nullptr;
  float epsilon = 0;

  [[nodiscard]] std::size_t size() const { return gamma->count(); }
};

/// x * weights + bias; the weights are float32, float16 or bfloat16 that count as float32, or blocks as MatMulNBits has
/// them.
struct RecognizedMatrix {
  const Constant* weights = nullptr;  ///< [inner, columns]; transposed: [columns, inner]; null: blocks
  bool transposed = false;
  /// As QuantizedColumns.
  const Constant *values = nullptr, *scales = nullptr, *zero_points = nullptr, *minimums = nullptr;
  std::size_t bits = 0, block_size = 0;
  std::size_t inner = 0, columns = 0;
  const Constant* bias = nullptr;  ///< [columns]
};

struct RecognizedRotary {
  const Constant *cosines = nullptr, *sines = nullptr;  ///< [positions, dimensions / 2]
  bool interleaved = false;

  bool operator==(const RecognizedRotary&) const = default;
};

/// The names of a layer's keys and values.
struct CacheNames {
  std::string past_key, past_value, present_key, present_value;
};

struct RecognizedLayer {
  std::optional<RecognizedNorm> attention_input_norm, attention_branch_norm, query_norm, key_norm;
  RecognizedMatrix query;  ///< without key and value: the columns of all three
  std::optional<RecognizedMatrix> key, value;
  RecognizedMatrix attention_output;
  std::optional<RecognizedRotary> rotary;
  AttentionRules rules;
  CacheNames cache;
  std::optional<RecognizedNorm> feed_forward_input_norm, feed_forward_branch_norm;
  float attention_branch_factor = 1, feed_forward_branch_factor = 1;
  std::optional<RecognizedMatrix> gate;
  RecognizedMatrix up, down;
  Activation activation = Activation::silu;
};

/// A decoder in a graph. Points into the graph, and into `owned`.
struct RecognizedDecoder {
  std::string input_ids, attention_mask, logits;
  std::size_t hidden_size = 0, heads = 0, kv_heads = 0, head_size = 0;
  CacheForm cache_form = CacheForm::float32;
  RecognizedMatrix tokens;  ///< a column for each token, hidden_size elements
  float token_scale = 1;
  const Constant* positions = nullptr;  ///< [positions, hidden_size], added to the tokens; null: none
  std::vector<RecognizedLayer> layers;
  std::optional<RecognizedNorm> final_norm;
  RecognizedMatrix language_head;
  float logit_divisor = 1, logit_soft_cap = 0;
  std::vector<std::size_t> nodes;  ///< the nodes that it consists of
  /// Constants that are made of the graph's.
  std::shared_ptr<std::deque<std::pair<Constant, std::vector<float>>>> owned;
};

/// The element types of the graph's inputs of four axes: keys and values.
using CacheTypes = std::map<std::string, ElementType, std::less<>>;

/// Recognises a decoder with keys and values as inputs and outputs, independent of the names and the order of nodes:
/// embeddings, layers of com.microsoft's GroupQueryAttention and a feed-forward branch, and the logits of the last
/// token. Empty if there is none; `reason` then says why, in a sentence that names the node that was not understood.
/// Pure.
std::optional<RecognizedDecoder> recognize(const Graph& graph, const CacheTypes& caches, std::string& reason);

/// Precision of products with weights of floats. Weights in blocks keep their format; their rows are quantized.
enum class DecoderPrecision : std::uint8_t { fp32, bf16, int8 };

/// The weights of the decoder, copied from the graph's constants and packed.
DecoderWeights weights_of(const RecognizedDecoder& found, DecoderPrecision precision);

}  // namespace gpux_cpu::decoder
