#include "embedding/max_sim.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::embedding {
namespace {

// Several sums side by side: an addition need not wait for the one before.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t lanes = sizeof(Lanes) / sizeof(float), side_by_side = 4, step = lanes * side_by_side;

float product(const float* left, const float* right, std::size_t width) {
  std::array<Lanes, side_by_side> sums{};
  std::size_t at = 0;
  for (; at + step <= width; at += step) {
    for (std::size_t i = 0; i < side_by_side; ++i) {
      Lanes a;
      Lanes b;
      std::memcpy(&a, left + at + i * lanes, sizeof(a));
      std::memcpy(&b, right + at + i * lanes, sizeof(b));
      sums[i] += a * b;
    }
  }
  float sum = 0;
  for (; at < width; ++at) sum += left[at] * right[at];
  for (const Lanes& each : sums) {
    for (std::size_t i = 0; i < lanes; ++i) sum += each[i];
  }
  return sum;
}

}  // namespace

float max_sim(const Embedding& query, const Embedding& document, bool is_mean) {
  if (query.rows == 0) return 0;
  if (document.rows == 0) return -std::numeric_limits<float>::infinity();
  const std::size_t width = query.values.size() / query.rows;
  if (document.values.size() != document.rows * width) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the query's vectors have {} dimensions, the document's {}: they are of other models",
                            width, document.values.size() / document.rows));
  }
  double sum = 0;
  for (std::size_t i = 0; i < query.rows; ++i) {
    float best = -std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < document.rows; ++j) {
      best = std::max(best, product(query.values.data() + i * width, document.values.data() + j * width, width));
    }
    sum += double{best};
  }
  return static_cast<float>(is_mean ? sum / static_cast<double>(query.rows) : sum);
}

}  // namespace gpux::embedding
