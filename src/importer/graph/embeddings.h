#pragma once

#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// The inputs input_ids, attention_mask and, where the embeddings take it, token_type_ids: int64[batch, sequence].
void write_text_inputs(GraphContext& context, const Embeddings& embeddings);

/// Hidden states before the first layer, [batch, sequence, size], from the inputs.
std::string write_embeddings(GraphContext& context, const Embeddings& embeddings);

}  // namespace gpux::importer
