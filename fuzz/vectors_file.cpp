// Files of vectors with their index: what is read of one is within it, and so is what a search finds.
#include "vector_store/local/vectors_file.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "fuzzer.h"
#include "vector_store/filter.h"
#include "vector_store/local/file_search.h"
#include "vector_store/local/graph.h"

namespace gpux::fuzz {
namespace {

using namespace vector_store;

void put_digest(std::string& file, std::size_t at, std::string_view of) {
  const PointId digest = id_bytes(sha256_of(of));
  std::memcpy(file.data() + at, digest.data(), digest.size());
}

// Digests would hide all else: those of the facts and of the last segment are made right.
std::string with_digests(std::string file) {
  constexpr std::size_t header = 48, segment = 56;
  if (file.size() < header) return file;
  std::uint32_t facts = 0;
  std::memcpy(&facts, file.data() + 8, sizeof facts);
  if (facts <= file.size() - header) put_digest(file, 16, std::string_view(file).substr(header, facts));
  const std::size_t last = file.rfind("GPUXSEG1");
  if (last != std::string::npos && file.size() - last >= segment) {
    put_digest(file, last + 24, std::string_view(file).substr(last + segment));
  }
  return file;
}

}  // namespace

void read_hostile(std::string_view input) {
  const std::string bytes = with_digests(std::string(input));
  // They begin at a multiple of eight, as what is mapped does.
  std::vector<std::uint64_t> aligned(bytes.size() / 8 + 1);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const VectorsFile file = read_vectors_file(std::as_bytes(std::span(aligned)).first(bytes.size()), "it");
  const PointsInFile points(file);
  require(points.size() <= file.points, "more points count than there are");
  std::size_t whole = 0;
  for (const PointSegment& segment : file.segments) {
    for (std::size_t point = 0; point < segment.points; ++point) {
      const StoredEntry entry = read_entry(segment, point, "it");
      require(entry.sparse.indices.size() == entry.sparse.values.size(), "an index without a value");
      require(entry.sparse.indices == read_sparse(segment, point, "it").indices, "a sparse vector reads as another");
      require(entry.payload == read_payload(segment, point, "it"), "a payload reads as another");
      ++whole;
    }
  }
  require(whole == file.points, "a point is in no segment");
  const auto graph = file.graph.empty() ? nullptr : Graph::read(file.graph, file.indexed, "it");
  const SearchRequest dense{.vector = std::vector<float>(file.facts.dimension, 1.0F), .count = 3};
  SearchRequest exact = dense, filtered = dense, sparse = dense;
  exact.is_exact = true;
  filtered.filter = {parse_condition("a=1")};
  sparse.vector.clear();
  sparse.sparse = {.indices = {1, 5}, .values = {1.0F, 2.0F}};
  for (const SearchRequest& request : {dense, exact, filtered, sparse}) {
    for (const auto& match : search_file({file, points, graph.get(), 1, "it"}, request)) {
      require(match.index < file.points && points.is_current(static_cast<std::uint32_t>(match.index)),
              "a point is found that is not there");
    }
  }
}

}  // namespace gpux::fuzz
