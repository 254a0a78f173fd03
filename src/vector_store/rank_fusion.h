#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gpux::vector_store {

/// A point by its id, and the fused score.
struct FusedRank {
  std::string id;
  double score = 0;

  bool operator==(const FusedRank&) const = default;
};

/// The constant of the published method, which Qdrant and Elasticsearch use as well.
inline constexpr std::size_t rank_fusion_constant = 60;

/// Reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): the score of an id is the sum over the lists of
/// 1 / (constant + rank), with ranks from 1; an id that a list names twice counts there once, at its better rank.
/// Best first, of equal scores the lesser id. Pure.
std::vector<FusedRank> fuse_ranks(std::span<const std::vector<std::string>> lists,
                                  std::size_t constant = rank_fusion_constant);

}  // namespace gpux::vector_store
