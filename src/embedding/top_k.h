#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpux/similarity.h"

namespace gpux::embedding {

/// A row of the vectors that were searched.
struct Match {
  std::size_t index = 0;
  float score = 0;  ///< cosine of the angle to the query, -1 to 1; the product; or a distance, negative

  bool operator==(const Match&) const = default;
};

/// Error invalid_input where a query is empty, all zeros (cosine) or not finite.
void require_query(std::span<const float> query, Similarity similarity);

/// The k rows of `matrix`, [rows, query.size()] in row-major order, that are nearest to `query`, nearest first, of
/// equal scores the lower index; fewer where there are not so many. Every row is looked at, on `threads` threads (at
/// least 1); the answer does not depend on their number. A row of zeros has no direction and scores 0, also one so
/// short (1e-23) that its squares are 0 in float32; one with NaN or infinities, or so long (1e19) that its squares are
/// infinite, is never among them. By the other similarities, rows of zeros are rows like any other. Errors
/// invalid_input where the query is empty, all zeros (cosine) or not finite, or the matrix has no whole rows.
std::vector<Match> top_k(std::span<const float> matrix, std::span<const float> query, std::size_t k,
                         unsigned threads = 1, Similarity similarity = Similarity::cosine);

}  // namespace gpux::embedding
