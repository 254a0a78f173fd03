#pragma once

#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// Adds the nodes of the bias for the scores [batch, heads, query, key] of a layer, before Softmax, and returns its
/// name: 0 or -30000 by attention_mask, the window and the causal order, and the bias of relative positions. [batch, 1,
/// 1, key] where only the mask counts, otherwise broadcastable to the scores. Made once for all layers with the same
/// window and order.
///
/// Patterns: mask: Mul(Sub(1, Cast(Unsqueeze(attention_mask))), -30000). Distances, key minus query, [query, key]:
/// Sub(Unsqueeze(Range(0, sequence, 1), 0), Unsqueeze(Range, 1)). Window: Greater(Abs(distance), window). Causal:
/// Greater(distance, 0), with a window: Or(that, Less(distance, -window)). Both: Mul(Cast(excluded), -30000), added to
/// the mask. T5: Gather(table[heads, 2 max_distance + 1], Clip(distance) + max_distance, axis 1). ALiBi:
/// Mul(Cast(Abs(distance)), -slopes[heads, 1, 1]).
std::string attention_bias(GraphContext& context, const Transformer& transformer, const Attention& attention);

/// T5's bucket of a key at `relative` positions behind the query, in both directions.
std::int64_t relative_bucket(std::int64_t relative, std::int64_t buckets, std::int64_t max_distance);

}  // namespace gpux::importer
