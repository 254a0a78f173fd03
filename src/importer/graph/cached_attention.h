#pragma once

#include <cstddef>
#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// Declares the keys and values of each layer: inputs past_key_values.N.key and .value, float[batch, kv_heads,
/// past_sequence, head_size], and outputs present.N.key and .value, which hold the tokens of this run too. These are
/// the names of onnxruntime-genai and Optimum.
void write_cache_values(GraphContext& context, const Transformer& transformer);

/// int64[batch, sequence]: the position of each token of this run in its row.
std::string token_positions(GraphContext& context);

/// The attention of layer `layer` over its keys and values: query, key and value are Linear, their norms follow, of
/// each head or of the whole width; then GroupQueryAttention (com.microsoft), which rotates, appends to the cache and
/// attends; Linear. Heads and rotary positions of sizes that it does not rotate are rotated by nodes before it. The
/// positions are those of the tokens in attention_mask, int64[batch, past_sequence + sequence].
/// Error invalid_config: an attention that is not causal, or has biases by position.
std::string cached_attention(GraphContext& context, const Transformer& transformer, const Attention& attention,
                             std::size_t layer, std::int64_t max_tokens, const std::string& input);

}  // namespace gpux::importer
