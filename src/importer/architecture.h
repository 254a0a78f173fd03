#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "checkpoint/activation.h"

/// A transformer encoder as data: what the graph writer (importer/graph) computes, and which tensors of the weights it
/// reads. A family (importer/families) derives it from config.json and from the names in the weights. Names are
/// complete: those of the file, with the layer's number.
namespace gpux::importer {

/// Low-rank additions to a weight, one for each task of the model (LoRA, arXiv 2106.09685).
/// A Linear becomes weight + scale * up[task] down[task], a table of embeddings table + scale * down[task] up[task].
struct Adapter {
  std::string down{};  ///< float[tasks, rank, in]; of a table float[tasks, rows, rank]
  std::string up{};    ///< float[tasks, stored rows, rank]; of a table float[tasks, rank, size]
  std::int64_t tasks = 0, rank = 0;
  float scale = 1;
};

/// x W^T + b. The weight is float[out, in], or rows of a larger tensor (fused query, key and value).
struct Linear {
  std::string weight{};
  std::string bias{};  ///< float[out]; empty: none
  std::int64_t in = 0, out = 0;
  std::int64_t first_row = 0;
  std::int64_t stored_rows = 0;  ///< rows of the tensors in the file, if they have more than `out`; 0: `out`
  bool is_transposed = false;    ///< the file has float[in, out], and what are called rows here are its columns
  std::optional<Adapter> adapter{};
};

enum class NormKind : std::uint8_t { layer, rms };

/// Over the last axis. RMS: x / sqrt(mean(x^2) + epsilon) * (weight + weight_offset).
struct Norm {
  NormKind kind = NormKind::layer;
  std::string weight{};  ///< float[size]
  std::string bias{};    ///< float[size]; empty: none
  std::int64_t size = 0;
  float epsilon = 1e-12F;
  float weight_offset = 0;  ///< Gemma stores weights minus 1
};

/// From where the rows of learned positions are counted.
enum class PositionStart : std::uint8_t {
  zero,           ///< the i-th token has row i
  after_padding,  ///< the i-th token that is not padding has row padding_token + 1 + i, as in RoBERTa
};

/// The sum of the rows of the tables, [batch, sequence, size]; then scale, norm and projection.
struct Embeddings {
  std::string words{};  ///< float[vocabulary, size]
  std::int64_t vocabulary = 0, size = 0;
  std::string token_types{};  ///< float[token_type_count, size]; empty: none
  std::int64_t token_type_count = 0;
  bool token_type_input = false;  ///< an input token_type_ids; otherwise every token has type 0
  std::string positions{};        ///< float[position_count, size]; empty: none
  std::int64_t position_count = 0;
  PositionStart position_start = PositionStart::zero;
  std::int64_t padding_token = 0;
  float scale = 1;                                              ///< factor of the word embeddings (Gemma)
  std::optional<Adapter> word_adapter{}, token_type_adapter{};  ///< the latter without token_type_input
  std::optional<Norm> norm{};
  std::optional<Linear> projection{};  ///< from `size` to the hidden size, after the norm (ALBERT, ELECTRA)
};

/// Rotary positions: element i and element i + dimensions / 2 of a head are rotated by position * frequencies[i].
/// Elements from `dimensions` on stay.
struct Rotary {
  std::vector<float> frequencies{};  ///< dimensions / 2
  float attention_factor = 1;        ///< factor of cosines and sines
};

/// Added to the scores: table[bucket(key position - query position), head], with T5's buckets in both directions.
/// Distances from max_distance on share a bucket.
struct RelativeBias {
  std::string table{};  ///< float[buckets, heads]
  std::int64_t buckets = 32, max_distance = 128;
  std::int64_t max_tokens = 0;  ///< not 0: stored for each pair of so many positions, otherwise for each distance
};

/// Added to the scores: -slope of the head * |key position - query position|.
struct Alibi {
  std::vector<float> slopes{};  ///< heads
};

/// DeBERTa's attention: content to position and position to content, from one table of relative positions.
struct Disentangled {
  std::string table{};         ///< float[2 * span, hidden size]
  std::optional<Norm> norm{};  ///< norm of the table of relative embeddings
  std::int64_t span = 0;       ///< buckets to each side
  std::int64_t buckets = 0;    ///< buckets of logarithmic positions; 0: positions are clipped at span
  std::int64_t max_positions = 0;
  bool content_to_position = true, position_to_content = true;
};

using PositionBias = std::variant<std::monostate, RelativeBias, Alibi, Disentangled>;

struct Attention {
  Linear query{}, key{}, value{}, output{};
  std::optional<Norm> query_norm{}, key_norm{};  ///< before the rotation: of each head, or of a decoder's all heads
  std::optional<std::size_t> rotary{};           ///< index into Transformer::rotary
  std::optional<std::int64_t> window{};          ///< the greatest distance of a key that is attended
  bool causal = false;                           ///< keys after the query are not attended
  float score_scale = 1;
  float soft_cap = 0;  ///< limit of a decoder's scores: cap * tanh(score / cap); 0: none
  std::optional<Linear> position_query{}, position_key{};  ///< projections of Disentangled's table
};

/// down(activation(up(x))), or with a gate: down(activation(gate(x)) * up(x)).
struct FeedForward {
  std::optional<Linear> gate{};
  Linear up{}, down{};
  checkpoint::Activation activation = checkpoint::Activation::gelu;
};

/// hidden = sum_norm(hidden + scale * factor * branch_norm(branch(input_norm(hidden)))), for attention and for the
/// feed-forward.
struct Residual {
  std::optional<Norm> input_norm{};   ///< pre-norm
  std::optional<Norm> branch_norm{};  ///< Gemma's sandwich has it in addition
  std::string branch_scale{};         ///< float[hidden size], DINOv2's layer scale; empty: none
  float branch_factor = 1;            ///< Granite's residual multiplier
  std::optional<Norm> sum_norm{};     ///< post-norm
};

struct Layer {
  Attention attention{};
  Residual attention_residual{};
  FeedForward feed_forward{};
  Residual feed_forward_residual{};
};

/// From hidden states to hidden states, both [batch, sequence, hidden_size].
struct Transformer {
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0, kv_heads = 0, head_size = 0;  ///< kv_heads divides heads
  std::vector<Rotary> rotary{};
  PositionBias position_bias{};
  bool is_masked = true;  ///< attention_mask leaves keys out; false: there is no such input, and all keys are attended
  std::vector<Layer> layers{};  ///< ALBERT's share tensors; a tensor is stored once
  std::optional<Norm> final_norm{};
};

/// The kind of task head.
enum class HeadKind : std::uint8_t {
  vectors,         ///< no head: the hidden states, and their pooling
  classification,  ///< a text
  token_classification,
  question_answering,  ///< where an answer starts and ends
};

/// How the vectors of a text's tokens become one.
enum class GraphPooling : std::uint8_t { none, cls, mean, max, last_token };

/// out(norm(activation(dense(pooled)))); what is absent is left out.
struct Head {
  HeadKind kind = HeadKind::vectors;
  GraphPooling pooling = GraphPooling::none;  ///< pooling of classification
  std::optional<Linear> dense{};
  checkpoint::Activation activation = checkpoint::Activation::identity;
  std::optional<Norm> norm{};
  Linear out{};
};

/// Steps applied to a decoder's logits: logits / divisor, then cap * tanh(logits / cap).
struct LogitSteps {
  float divisor = 1;
  float soft_cap = 0;  ///< 0: they stay
};

/// The other positions of a decoder with two tables (longrope): for a context that is longer than `max_tokens`.
struct LongContext {
  std::vector<Rotary> rotary{};  ///< in place of Transformer::rotary
  std::int64_t max_tokens = 0;
};

/// Which tensors of the file are the encoder's: one of them that the description does not use is part of another
/// computation, and is refused.
struct TensorScope {
  std::vector<std::string> prefixes{};          ///< prefixes of the encoder's tensors
  std::string layers{};                         ///< prefix of a layer's number
  std::vector<std::string> ignored_suffixes{};  ///< stored buffers that no computation reads
};

struct Architecture {
  std::string model_type{};  ///< as config.json has it
  Embeddings embeddings{};
  Transformer transformer{};
  Head head{};
  std::int64_t labels = 0;      ///< number of labels of the head
  std::int64_t max_tokens = 0;  ///< 0: any number
  LogitSteps logits{};
  std::optional<LongContext> long_context{};
  std::int64_t tasks = 0;  ///< number of adapters; 0: none
  TensorScope scope{};
};

}  // namespace gpux::importer
