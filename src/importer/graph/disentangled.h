#pragma once

#include <cstdint>
#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// What DeBERTa's relative positions add to the scores, [batch, heads, query, key]. `queries` are [batch, heads,
/// sequence, head_size] and scaled, `keys` [batch, heads, head_size, sequence]. Empty where the model has neither
/// product.
///
/// Patterns. Row of the table for a pair: Expand(Gather(buckets, Clip(distance, -n, n) + n)), where buckets has a row
/// for each distance, key minus query. Content to position: GatherElements(MatMul(queries, table [heads, head_size,
/// rows]), row) along the last axis. Position to content: GatherElements(MatMul(table [heads, rows, head_size], keys),
/// row) along the axis before. Tables: Transpose(Reshape(Linear(table))).
std::string disentangled_scores(GraphContext& context, const Transformer& transformer, const Disentangled& disentangled,
                                const Attention& attention, const std::string& queries, const std::string& keys);

/// The row of the table for a query `relative` positions behind the key, as transformers' make_log_bucket_position.
std::int64_t disentangled_row(std::int64_t relative, const Disentangled& disentangled);

}  // namespace gpux::importer
