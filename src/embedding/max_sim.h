#pragma once

#include <span>

#include "embedding/representation.h"

namespace gpux::embedding {

/// The late-interaction score of a document for a query, as ColBERT defines it: the sum, over the query's vectors, of
/// the greatest product with one of the document's; with `is_mean` divided by their number (MeanMaxSim). Both are
/// [rows, width] of the same width. 0 where the query has no vectors, and minus infinity where the document has none.
/// The additions have a fixed order: equal inputs have equal scores. Pure. Error invalid_input: the widths differ.
float max_sim(const Embedding& query, const Embedding& document, bool is_mean = false);

}  // namespace gpux::embedding
