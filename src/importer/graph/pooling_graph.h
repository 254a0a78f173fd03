#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/dense_layer.h"
#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// One vector for each text, [batch, size], of hidden states [batch, sequence, size] and attention_mask. `pooling` is
/// not none. last_token is the last one that the mask has.
std::string pooled(GraphContext& context, const std::string& hidden, GraphPooling pooling,
                   std::string_view output = {});

/// Vectors [batch, in] to [batch, out]: activation(W x + b). `name` is the prefix of its constants.
std::string dense(GraphContext& context, const std::string& input, const checkpoint::DenseLayer& layer,
                  const std::string& name, std::string_view output = {});

/// Vectors of length 1.
std::string unit_vectors(GraphContext& context, const std::string& input, std::string_view output);

}  // namespace gpux::importer
