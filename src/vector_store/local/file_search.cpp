#include "vector_store/local/file_search.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "embedding/sparse_vector.h"
#include "gpux/error.h"
#include "vector_store/filter.h"

namespace gpux::vector_store {
namespace {

using embedding::Match;
using Matches = std::vector<Match>;

constexpr std::size_t points_at_once = 4096;
// From so many candidates on, which the search follows, about one of a hundred of the ten nearest is missed.
constexpr std::size_t min_candidates = 128, candidates_per_result = 3;

std::size_t candidates_of(const SearchRequest& request) noexcept {
  return std::max(min_candidates, candidates_per_result * request.count);
}

// To start a thread takes longer than to compare so many.
unsigned threads_for(const SearchedFile& searched, std::size_t points) {
  return points < points_at_once ? 1 : searched.threads;
}

void keep_best(Matches& matches, std::size_t count) {
  std::ranges::sort(matches, [](const Match& a, const Match& b) {
    return a.score != b.score ? a.score > b.score : a.index < b.index;
  });
  if (matches.size() > count) matches.resize(count);
}

bool is_wanted(const SearchedFile& searched, const Filter& filter, std::uint32_t index) {
  if (!searched.points.is_current(index)) return false;
  if (filter.empty()) return true;
  const PointSegment& segment = searched.points.segment_of(index);
  return matches(read_payload(segment, index - segment.first, searched.shown), filter);
}

// The scores of some points, whose vectors need not lie side by side.
void add_scores(const SearchedFile& searched, const SearchRequest& request, std::span<const std::uint32_t> indices,
                Matches& matches) {
  const std::size_t dimension = searched.file.facts.dimension;
  std::vector<float> vectors;
  vectors.reserve(indices.size() * dimension);
  for (const std::uint32_t index : indices) {
    const float* const vector = searched.points.vector(index);
    vectors.insert(vectors.end(), vector, vector + dimension);
  }
  for (const Match& match : embedding::top_k(vectors, request.vector, request.count,
                                             threads_for(searched, indices.size()), searched.file.facts.distance)) {
    matches.push_back({indices[match.index], match.score});
  }
  keep_best(matches, request.count);
}

// All points of the segment.
void compare_segment(const SearchedFile& searched, const SearchRequest& request, const PointSegment& segment,
                     Matches& matches) {
  for (const Match& match : embedding::top_k(segment.vectors, request.vector, request.count,
                                             threads_for(searched, segment.points), searched.file.facts.distance)) {
    matches.push_back({segment.first + match.index, match.score});
  }
  keep_best(matches, request.count);
}

// Those of the segment that are wanted.
void compare_wanted(const SearchedFile& searched, const SearchRequest& request, const PointSegment& segment,
                    std::size_t from, Matches& matches) {
  std::vector<std::uint32_t> wanted;
  const std::size_t end = segment.first + segment.points;
  for (std::size_t index = std::max(from, segment.first); index < end; ++index) {
    if (is_wanted(searched, request.filter, static_cast<std::uint32_t>(index))) {
      wanted.push_back(static_cast<std::uint32_t>(index));
    }
    if (wanted.size() < points_at_once) continue;
    add_scores(searched, request, wanted, matches);
    wanted.clear();
  }
  if (!wanted.empty()) add_scores(searched, request, wanted, matches);
}

// All points from `from` on.
void compare_all(const SearchedFile& searched, const SearchRequest& request, std::size_t from, Matches& matches) {
  const bool wants_all = request.filter.empty() && searched.points.replaced() == 0;
  for (const PointSegment& segment : searched.file.segments) {
    if (segment.first + segment.points <= from) continue;
    if (wants_all && segment.first >= from) {
      compare_segment(searched, request, segment, matches);
    } else {
      compare_wanted(searched, request, segment, from, matches);
    }
  }
}

Matches search_sparse(const SearchedFile& searched, const SearchRequest& request) {
  const embedding::Embedding query{.values = request.sparse.values, .indices = request.sparse.indices, .rows = 1};
  Matches matches;
  for (const PointSegment& segment : searched.file.segments) {
    for (std::size_t point = 0; point < segment.points; ++point) {
      if (!searched.points.is_current(static_cast<std::uint32_t>(segment.first + point))) continue;
      SparseVector sparse = read_sparse(segment, point, searched.shown);
      const embedding::Embedding stored{
          .values = std::move(sparse.values), .indices = std::move(sparse.indices), .rows = 1};
      const float score = embedding::sparse_product(stored, query);
      const auto index = static_cast<std::uint32_t>(segment.first + point);
      if (score > 0 && is_wanted(searched, request.filter, index)) matches.push_back({index, score});
    }
    if (matches.size() > points_at_once) keep_best(matches, request.count);
  }
  keep_best(matches, request.count);
  return matches;
}

}  // namespace

bool follows_graph(const VectorsFile& file, const SearchRequest& request) noexcept {
  // To compare all takes less time than to follow more, and less memory.
  constexpr std::size_t share = 10;
  return !file.graph.empty() && !request.is_exact && !request.vector.empty() &&
         candidates_of(request) <= std::max(min_candidates, file.indexed / share);
}

Matches search_file(const SearchedFile& searched, const SearchRequest& asked) {
  SearchRequest request = asked;
  const std::size_t dimension = searched.file.facts.dimension;
  if (!request.vector.empty() && request.vector.size() != dimension) {
    throw Error(ErrorCode::invalid_input, fmt::format("the vector has {} dimensions, and those of the file have {}",
                                                      request.vector.size(), dimension));
  }
  request.count = std::min(request.count, searched.points.size());
  if (request.vector.empty()) return search_sparse(searched, request);
  Matches matches;
  std::size_t from = 0;
  if (searched.graph != nullptr && follows_graph(searched.file, request)) {
    from = searched.file.indexed;
    const auto passes = [&](std::uint32_t index) { return is_wanted(searched, request.filter, index); };
    std::vector<std::uint32_t> found =
        searched.graph->search(request.vector.data(), request.count, candidates_of(request), searched.points.vectors(),
                               distance_of(searched.file.facts.distance, searched.file.facts.is_normalized),
                               searched.file.facts.dimension, passes);
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    if (!found.empty()) add_scores(searched, request, found, matches);
  }
  compare_all(searched, request, from, matches);
  return matches;
}

}  // namespace gpux::vector_store
