#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vector_store/collection.h"

/// The file of a collection, which only grows: a header with the facts, and segments behind it. A segment has points,
/// or the graph of an approximate index of all points before it. All numbers are little-endian; parts begin at
/// multiples of 8 bytes.
///
///   header   "GPUXVEC1", u32 bytes of the facts, u32 0, SHA-256 of the facts, the facts as JSON
///   segment  "GPUXSEG1", u32 kind (1: points, 2: graph), u32 points, u64 bytes of the body, SHA-256 of the body, the
///   body points   u32 number of replaced points, u32 0, u32 each: points before it that are replaced by these;
///            float32 [points, dimension]; u64 [points + 1]: where each entry begins; the ids, 32 bytes each; the
///            entries
///   entry    u32 n, u32 [n] indices, float32 [n] values of the sparse vector; u32 bytes of the text, the text; the
///            payload as JSON
///
/// A segment that is not whole, at the end, is one that was being written when the power went: it does not count.
namespace gpux::vector_store {

using PointId = std::array<std::byte, 32>;

/// The points of a segment. Views of the file.
struct PointSegment {
  std::size_t first = 0;  ///< index of its first point in the file
  std::size_t points = 0;
  std::span<const float> vectors;  ///< [points, dimension]
  std::span<const std::uint64_t> offsets;
  std::span<const PointId> ids;
  std::span<const std::byte> entries;
  std::span<const std::uint32_t> replaced;  ///< indices of points before it
};

/// A file that was read. Lives as long as its bytes.
struct VectorsFile {
  CollectionFacts facts;
  std::vector<PointSegment> segments;
  std::size_t points = 0;            ///< with those that were replaced
  std::size_t indexed = 0;           ///< the points that the graph is of: the first so many
  std::span<const std::byte> graph;  ///< the last one; empty: none
  std::uint64_t bytes = 0;           ///< what is whole
};

/// What is stored beside a vector.
struct StoredEntry {
  SparseVector sparse;
  std::string text;
  nlohmann::json payload;
};

/// The id as bytes. Error invalid_input where it is not 64 hexadecimal digits.
PointId id_bytes(std::string_view id);
std::string id_text(const PointId& id);

/// The header of a new file.
std::string file_header(const CollectionFacts& facts);

/// A segment of points, none of them twice; `replaced` as in PointSegment.
std::string point_segment(std::span<const Point* const> points, std::size_t dimension,
                          std::span<const std::uint32_t> replaced);

/// A segment with a graph of the first `points` points.
std::string graph_segment(std::string_view graph, std::size_t points);

/// Reads a file, whoever wrote it: all positions and numbers are checked, so that views are within `bytes`, which begin
/// at a multiple of 8. Error invalid_input, within `shown`.
VectorsFile read_vectors_file(std::span<const std::byte> bytes, std::string_view shown);

/// Reads the entry of one of the segment's points, or a part of it. Error invalid_input.
StoredEntry read_entry(const PointSegment& segment, std::size_t point, std::string_view shown);
SparseVector read_sparse(const PointSegment& segment, std::size_t point, std::string_view shown);
nlohmann::json read_payload(const PointSegment& segment, std::size_t point, std::string_view shown);

}  // namespace gpux::vector_store
