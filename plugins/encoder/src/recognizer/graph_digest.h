#pragma once

#include "encoder/shared_encoders.h"
#include "kernels/linear.h"
#include "recognizer/graph.h"

namespace gpux_encoder {

/// Of the graph, weights and all, and the precision in which it is computed. Names of nodes do not count.
SharedEncoders::Digest digest_of(const Graph& graph, Precision precision);

}  // namespace gpux_encoder
