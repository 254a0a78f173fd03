#pragma once

#include <cstdint>
#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// Adds the nodes of DeBERTa's relative positions. Returns the name of the output to be added to the scores, [batch,
/// heads, query, key]. `queries` and `keys` are [batch, heads, sequence, head_size]; the queries are scaled. Empty
/// where the model has neither product.
///
/// Patterns. Row of the table for a pair: Gather(buckets, Clip(distance, -n, n) + n), where buckets has a row for each
/// distance, key minus query. Content to position: GatherElements(MatMul(queries, Transpose(Reshape(Linear(table)))),
/// Expand(row)) along the last axis. Position to content: Transpose(GatherElements(MatMul(keys, Transpose(Reshape(
/// Linear(table)))), Expand(Transpose(row)))).
std::string disentangled_scores(GraphContext& context, const Transformer& transformer, const Disentangled& disentangled,
                                const Attention& attention, const std::string& queries, const std::string& keys);

/// The row of the table for a query `relative` positions behind the key, as transformers' make_log_bucket_position.
std::int64_t disentangled_row(std::int64_t relative, const Disentangled& disentangled);

}  // namespace gpux::importer
