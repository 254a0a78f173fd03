#pragma once

#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// The inputs input_ids, attention_mask and, where the embeddings take it, token_type_ids: int64[batch, sequence].
void write_text_inputs(GraphContext& context, const Embeddings& embeddings);

/// Hidden states before the first layer, [batch, sequence, size], from the inputs. `token_positions`: int64[batch,
/// sequence], the row of learned positions for each token; empty: those of a text from its beginning.
std::string write_embeddings(GraphContext& context, const Embeddings& embeddings,
                             const std::string& token_positions = {});

}  // namespace gpux::importer
