#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/dense_layer.h"
#include "checkpoint/splade_pooling.h"
#include "importer/families/masked_language_head.h"
#include "importer/graph/graph_context.h"

/// Outputs beside the vectors of texts. `hidden` is [batch, sequence, size].
namespace gpux::importer {

/// Output sparse_embedding, float32 [batch, vocabulary]: a weight per entry. For the maximum: MatMul by the decoder (a
/// Transpose of the table of words where they are tied), Where(attention_mask, …, -1e9), ReduceMax over the tokens, Add
/// of the bias, Relu, Add 1, Log; the bias and the activation rise with the score, so that they are needed once and not
/// for each token.
void write_splade(GraphContext& context, const MaskedLanguageHead& head, const checkpoint::SpladePooling& pooling,
                  const std::string& hidden);

/// Output `output`, float32 [batch, sequence, width]: each token's vector through the layers, MatMul and Add of the
/// bias, and to length 1 where `normalize` says so. `first_token` tokens are left out in front.
void write_token_vectors(GraphContext& context, const std::vector<checkpoint::DenseLayer>& layers, bool normalize,
                         const std::string& hidden, std::string_view output, std::int64_t first_token = 0);

/// Output sparse_vecs, float32 [batch, sequence, 1]: a weight per token, Relu of the layer (BGE-M3).
void write_token_weights(GraphContext& context, const checkpoint::DenseLayer& layer, const std::string& hidden);

}  // namespace gpux::importer
