#pragma once

#include "encoder/shared_encoders.h"
#include "graph/graph.h"
#include "kernels/linear.h"

namespace gpux_cpu::encoder {

/// Digest of the graph with its weights, and of the precision in which it is computed. Names of nodes do not count.
SharedEncoders::Digest digest_of(const Graph& graph, Precision precision);

}  // namespace gpux_cpu::encoder
