#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "vector_store/local/file_store.h"
#include "vector_store/postgres/postgres_store.h"
#include "vector_store/qdrant/qdrant_store.h"
#include "vector_store/rank_fusion.h"
#include "vector_store/vector_store.h"

namespace gpux::vector_store {

std::unique_ptr<VectorStore> open_store(const StoreUrl& url, const Cancellation& cancellation) {
  switch (url.kind) {
    case StoreUrl::Kind::postgres:
      return open_postgres(url, cancellation);
    case StoreUrl::Kind::qdrant:
      return open_qdrant(url, cancellation);
    default:
      return open_file_store(url);
  }
}

std::vector<FoundPoint> search_hybrid(VectorStore& store, const SearchRequest& request) {
  // Of each search more than are wanted: what both have far down may come first together.
  constexpr std::size_t min_candidates = 50, times = 4, most = std::numeric_limits<std::size_t>::max() / times;
  SearchRequest dense = request, sparse = request;
  dense.sparse = {};
  sparse.vector.clear();
  const std::size_t several = request.count > most ? request.count : times * request.count;
  dense.count = sparse.count = std::max(min_candidates, several);
  std::map<std::string, FoundPoint> known;
  std::vector<std::vector<std::string>> lists;
  for (const SearchRequest* one : {&dense, &sparse}) {
    std::vector<std::string>& list = lists.emplace_back();
    if (one == &sparse && request.sparse.indices.empty()) continue;
    for (FoundPoint& point : store.search(*one)) {
      // What has no entry in common with the query has no rank.
      if (one == &sparse && point.score <= 0) continue;
      list.push_back(point.id);
      known.try_emplace(point.id, std::move(point));
    }
  }
  std::vector<FoundPoint> found;
  for (const FusedRank& rank : fuse_ranks(lists)) {
    if (found.size() == request.count) break;
    found.push_back(std::move(known.at(rank.id)));
    found.back().score = rank.score;
  }
  return found;
}

}  // namespace gpux::vector_store
