#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/splade_pooling.h"
#include "embedding/representation.h"

/// Sparse vectors: weights of entries of a vocabulary. Pure.
namespace gpux::embedding {

/// Which entries of a sparse vector are kept.
struct SparseLimits {
  std::size_t top_k = 0;  ///< the largest weights, of equal ones those of the lower indices; 0: all
  float threshold = 0;    ///< weights above it
};

/// Makes a sparse vector of a weight per entry of the vocabulary; those that are 0 are left out.
Embedding sparse_from_vocabulary(std::span<const float> weights, const SparseLimits& limits = {});

/// Makes a sparse vector of the scores of a masked language model, [tokens, vocabulary], as the pooling has it.
Embedding sparse_from_logits(std::span<const float> logits, std::size_t tokens,
                             const checkpoint::SpladePooling& pooling, const SparseLimits& limits = {});

/// Makes a sparse vector of a weight per token: an entry's is the largest of its tokens. Weights that are not above 0
/// and the ids in `left_out`, which is sorted, do not count. As BGE-M3 defines it.
Embedding sparse_from_tokens(std::span<const float> weights, std::span<const std::uint32_t> ids,
                             std::span<const std::uint32_t> left_out, const SparseLimits& limits = {});

/// The product of two sparse vectors: 0 where they have no entry in common.
float sparse_product(const Embedding& left, const Embedding& right);

}  // namespace gpux::embedding
