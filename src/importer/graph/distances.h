#pragma once

#include <string>

#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// int64[]: the number of tokens in a row of input_ids.
std::string token_count(GraphContext& context);

/// int64[query, key]: key minus query. Sub(Unsqueeze(Range(0, tokens, 1), 0), Unsqueeze(Range(0, tokens, 1), 1)).
std::string distances(GraphContext& context);

/// int64[query, key]: distances() clipped to -most and most, plus most: the row in a table of 2 most + 1 distances.
std::string distance_index(GraphContext& context, std::int64_t most);

}  // namespace gpux::importer
