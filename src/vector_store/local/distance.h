#pragma once

#include <cstddef>
#include <string_view>

#include "gpux/similarity.h"

namespace gpux::vector_store {

/// How far two vectors of so many elements are from each other: lower is nearer. Never NaN: what is none is far.
using Distance = float (*)(const float* left, const float* right, std::size_t dimension);

/// The fastest for this processor. Its order is that of embedding::top_k(), but for rounding. `is_normalized`: the
/// stored vectors have the length 1.
Distance distance_of(Similarity similarity, bool is_normalized = false);

}  // namespace gpux::vector_store
