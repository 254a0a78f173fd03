#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vector_store/local/distance.h"

namespace gpux::vector_store {

/// Vectors by their index.
using VectorTable = std::span<const float* const>;

/// Which vectors a search may find.
using IsWanted = std::function<bool(std::uint32_t index)>;

/// A navigable small world graph (HNSW, Malkov and Yashunin, 2016) of vectors that lie elsewhere, by usearch.
class Graph {
 public:
  /// Neighbors of a vector in the upper layers; in the lowest twice as many. Candidates while it is built.
  static constexpr std::size_t connectivity = 16, build_candidates = 128;

  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Builds it on `threads` threads. `indices`: of the vectors. Error resource_exhausted.
  static std::unique_ptr<Graph> build(std::span<const std::uint32_t> indices, VectorTable vectors, Distance distance,
                                      std::size_t dimension, unsigned threads);

  /// Reads what bytes() made, whoever wrote it: every neighbor is checked to be there before the graph is used.
  /// `count`: indices are below. Error invalid_input, within `shown`.
  static std::unique_ptr<Graph> read(std::span<const std::byte> bytes, std::size_t count, std::string_view shown);

  [[nodiscard]] std::string bytes() const;

  /// About the `count` nearest among those that are wanted, nearest first; `candidates` are followed, the more the
  /// better. By one thread at a time. Errors of `is_wanted`; resource_exhausted.
  [[nodiscard]] std::vector<std::uint32_t> search(const float* query, std::size_t count, std::size_t candidates,
                                                  VectorTable vectors, Distance distance, std::size_t dimension,
                                                  const IsWanted& is_wanted) const;

 private:
  struct State;

  explicit Graph(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace gpux::vector_store
