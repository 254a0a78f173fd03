#pragma once

#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

#include "decoder/cache_attention.h"
#include "decoder/projection.h"
#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/rotary_table.h"
#include "kernels/shared_array.h"

namespace gpux_cpu::decoder {

/// The rows of tokens: float[vocabulary, hidden_size], or the columns of a projection, which may be the language
/// head's.
using TokenTable = std::variant<SharedArray<float>, Projection>;

/// A projection among others that read the same rows: its results go to `first_column` and the columns after it.
struct PlacedProjection {
  Projection projection;
  std::size_t first_column = 0;
};

/// The branches of a layer: x = x + branch_factor * branch_norm(branch(input_norm(x))), each norm if it is there.
struct DecoderLayer {
  std::optional<Norm> attention_input_norm = {}, attention_branch_norm = {};
  std::vector<PlacedProjection> query_key_value;  ///< query, key and value projections
  /// Where queries (heads side by side), keys and values are in a row of `columns`.
  std::size_t query_column = 0, key_column = 0, value_column = 0, columns = 0;
  std::optional<Norm> query_norm = {},
                      key_norm = {};  ///< norms of each head, or of all heads together, before rotary positions
  std::optional<std::size_t> rotary_table = {};  ///< index in DecoderWeights::rotary_tables
  AttentionRules rules;
  Projection attention_output;
  float attention_branch_factor = 1, feed_forward_branch_factor = 1;
  std::optional<Norm> feed_forward_input_norm = {}, feed_forward_branch_norm = {};
  std::optional<Projection> gate = {};  ///< activation(gate(x)) * up(x); without: activation(up(x))
  Projection up;                        ///< up projection
  Activation activation = Activation::silu;
  Projection down;

  /// What queries, keys and values are read in.
  [[nodiscard]] RowFormats attention_formats() const noexcept;
  /// What gate and up projection are read in.
  [[nodiscard]] RowFormats feed_forward_formats() const noexcept;
};

/// A decoder: hidden states of tokens to the logits of the token that follows.
struct DecoderWeights {
  std::size_t hidden_size = 0, heads = 0, kv_heads = 0, head_size = 0;
  std::size_t vocabulary = 0;
  std::size_t max_positions = 0;  ///< rows of the tables of positions; 0: any number of positions
  CacheForm cache_form = CacheForm::float32;
  TokenTable tokens;
  float token_scale = 1;
  SharedArray<float> positions;  ///< [max_positions, hidden_size], added to the tokens; empty: none
  std::vector<RotaryTable> rotary_tables;
  std::vector<DecoderLayer> layers;
  std::optional<Norm> final_norm = {};
  Projection language_head;
  float logit_divisor = 1;   ///< before the cap
  float logit_soft_cap = 0;  ///< a logit becomes soft_cap * tanh(logit / soft_cap); 0: stays

  /// Bytes of weights that the products of a step read, regardless of the number of its tokens.
  [[nodiscard]] std::size_t bytes_per_step() const noexcept;
  /// Products of one token, without attention; the language head is that of one token.
  [[nodiscard]] std::size_t products_per_token() const noexcept;
};

}  // namespace gpux_cpu::decoder
