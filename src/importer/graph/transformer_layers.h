#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// Hidden states behind the last layer and the final norm, [batch, sequence, hidden_size]; `output` is their name.
///
/// Pattern of an attention: query, key and value are Linear, Reshape to [batch, sequence, heads, head_size],
/// Transpose, then the norms of the heads and the rotation (importer/graph/rotary.h). Keys and values of grouped heads
/// are repeated: Reshape(Expand(Unsqueeze(x, 2))). Scores: Add(MatMul(query, Transpose(key)), bias), Softmax, MatMul
/// with the values, Transpose, Reshape, Linear. The scale of the scores is part of the query's weights, or of the
/// query norm's weight. Feed-forward: Linear, activation, Linear; gated: Mul(activation(Linear), Linear), Linear.
std::string write_layers(GraphContext& context, const Transformer& transformer, const std::string& input,
                         std::string_view output);

/// Writes the attention of a layer, by its number, from its input to behind its output layer; returns the result.
using AttentionWriter =
    std::function<std::string(const std::string& input, const Attention& attention, std::size_t layer)>;

/// Writes the layers around another attention.
std::string write_layers(GraphContext& context, const Transformer& transformer, const std::string& input,
                         std::string_view output, const AttentionWriter& write_attention);

}  // namespace gpux::importer
