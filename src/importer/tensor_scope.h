#pragma once

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// Error invalid_model where the file has a tensor in architecture.scope that the graph has not used: an adapter or
/// cross-attention is part of another computation.
void refuse_unused(const GraphContext& context, const Architecture& architecture);

}  // namespace gpux::importer
