#pragma once

#include <span>
#include <vector>

#include "checkpoint/dense_layer.h"

namespace gpux::embedding {

/// `vector` has layer.in elements; gives layer.out.
std::vector<float> apply_dense(const checkpoint::DenseLayer& layer, std::span<const float> vector);

}  // namespace gpux::embedding
