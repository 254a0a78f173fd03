#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "embedding/top_k.h"
#include "vector_store/local/graph.h"
#include "vector_store/local/points_in_file.h"
#include "vector_store/vector_store.h"

/// Searches in a file of vectors. Indices of matches are those of the points.
namespace gpux::vector_store {

/// What is searched.
struct SearchedFile {
  const VectorsFile& file;
  const PointsInFile& points;
  const Graph* graph = nullptr;  ///< of the first `file.indexed` points; null: none
  unsigned threads = 1;
  std::string_view shown;
};

/// Whether search_file() would follow the graph of the file: it has one, and following as many candidates as the
/// request needs takes less than comparing all.
bool follows_graph(const VectorsFile& file, const SearchRequest& request) noexcept;

/// By the graph, where there is one and the request is not for an exact search, and else by comparing all. Errors
/// invalid_input: as embedding::top_k(), and of read_entry().
std::vector<embedding::Match> search_file(const SearchedFile& searched, const SearchRequest& request);

}  // namespace gpux::vector_store
