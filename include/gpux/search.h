#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpux/embedder.h"
#include "gpux/export.h"
#include "gpux/similarity.h"

namespace gpux {

/// A vector that was found.
struct SearchHit {
  std::size_t index = 0;  ///< index of the vector, in the order in which they were added
  float score = 0;        ///< cosine of the angle to the query, -1 to 1; the product; or a distance, negative
  std::string id, text;   ///< where they are known
};

/// Vectors that are searched exactly: each is compared with the query. Movable; search() from several threads at
/// once, while nothing is added.
class GPUX_API SearchIndex {
 public:
  SearchIndex();
  ~SearchIndex();
  SearchIndex(SearchIndex&&) noexcept;
  SearchIndex& operator=(SearchIndex&&) noexcept;

  /// Opens vectors that `gpux embed` wrote: FILE.npy, FILE.jsonl, FILE.vec or a folder of .vec. Vectors of an .npy file
  /// stay on the disk until they are read. Errors not_found, storage, invalid_input, usage (another name).
  static SearchIndex open(const std::filesystem::path& place);

  /// Copies the vector, and what is to be found with it. Error invalid_input where its dimension is another than that
  /// of the vectors before.
  void add(std::span<const float> vector, std::string text = {}, std::string id = {});

  /// Number of vectors.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::size_t dimension() const noexcept;  ///< 0 while it is empty

  /// The `count` nearest, nearest first, of equal scores the lower index; fewer where there are not so many. Looks at
  /// all vectors, on `threads` threads (0: the processors of this process); the result does not depend on their number.
  /// Error invalid_input where the query has another dimension, is all zeros (cosine) or not finite.
  [[nodiscard]] std::vector<SearchHit> search(std::span<const float> query, std::size_t count = 10,
                                              unsigned threads = 0, Similarity similarity = Similarity::cosine) const;

  /// Embeds the text, and searches for it by the embedder's similarity(). Error invalid_input where another model made
  /// the vectors that open() read.
  [[nodiscard]] std::vector<SearchHit> search(const Embedder& embedder, std::string_view text, std::size_t count = 10,
                                              const EmbeddingOptions& options = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux
