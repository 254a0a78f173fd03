#pragma once

#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// The outputs of a head, float32: logits [batch, labels]; logits [batch, sequence, labels]; start_logits and
/// end_logits [batch, sequence]. `head.kind` is not vectors.
void write_head(GraphContext& context, const Head& head, const std::string& hidden);

}  // namespace gpux::importer
