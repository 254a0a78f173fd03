#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "importer/pooling.h"

namespace gpux::embedding {

/// Appends the pooled vector of `hidden`, [tokens, width] in row-major order, to `vector`. `mask` says for each token,
/// of which there is one at least, whether it counts (1) or not (0). Where none counts the means and last_token are
/// zeros, max is -infinity, and cls is the first token's.
void append_pooled(importer::Pooling pooling, std::span<const float> hidden, std::span<const std::uint8_t> mask,
                   std::vector<float>& vector);

/// Divides by the Euclidean length, or by 1e-12 where that is more.
void normalize(std::span<float> vector) noexcept;

}  // namespace gpux::embedding
