#include "vector_store/rank_fusion.h"

#include <algorithm>
#include <map>
#include <set>

namespace gpux::vector_store {

std::vector<FusedRank> fuse_ranks(std::span<const std::vector<std::string>> lists, std::size_t constant) {
  std::map<std::string, double> scores;
  for (const std::vector<std::string>& list : lists) {
    std::set<std::string_view> seen;
    for (std::size_t rank = 1; const std::string& id : list) {
      if (seen.insert(id).second) scores[id] += 1.0 / static_cast<double>(constant + rank);
      ++rank;
    }
  }
  std::vector<FusedRank> fused;
  for (const auto& [id, score] : scores) fused.push_back({.id = id, .score = score});
  std::ranges::sort(fused, [](const FusedRank& a, const FusedRank& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
  return fused;
}

}  // namespace gpux::vector_store
