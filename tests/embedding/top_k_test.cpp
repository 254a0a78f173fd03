#include "embedding/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::embedding {

void PrintTo(const Match& match, std::ostream* stream) {
  *stream << match.index << ": " << match.score;
}

namespace {

using Numbers = std::vector<float>;
using Matches = std::vector<Match>;

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan = std::nanf("");

TEST(TopK, IsTheNearestByCosine) {
  struct {
    const char* name;
    Numbers matrix, query;
    std::size_t k;
    Matches expected;
  } const cases[]{
      {"nearest first", {0, 1, 1, 0, -1, 0}, {2, 0}, 3, {{1, 1}, {0, 0}, {2, -1}}},
      {"length does not count", {0.5F, 0, 3, 4, 100, 0}, {1, 0}, 3, {{0, 1}, {2, 1}, {1, 0.6F}}},
      {"only k", {0, 1, 1, 0, -1, 0}, {2, 0}, 1, {{1, 1}}},
      {"none", {0, 1}, {1, 0}, 0, {}},
      {"fewer than k", {0, 1, 1, 0}, {1, 0}, 10, {{1, 1}, {0, 0}}},
      {"no rows", {}, {1, 0}, 10, {}},
      {"of equals the lower index", {1, 0, 0, 1, 2, 0, 1, 0}, {1, 0}, 2, {{0, 1}, {2, 1}}},
      {"of equals the lower index, the worst left out", {0, 1, 0, 2, 1, 0, 0, 4}, {1, 0}, 2, {{2, 1}, {0, 0}}},
      {"zeros score 0", {-1, 0, 0, 0, 1, 0}, {1, 0}, 3, {{2, 1}, {1, 0}, {0, -1}}},
      {"NaN and infinities never", {nan, 1, 1, 0, infinity, 1, 1, -infinity, -1, 0}, {1, 0}, 9, {{1, 1}, {4, -1}}},
      {"nor what is too long", {1e30F, 0, 1, 0}, {1, 0}, 9, {{1, 1}}},
      {"short ones have a direction", {-1e-18F, 0, 1e-18F, 0}, {1e-30F, 0}, 9, {{1, 1}, {0, -1}}},
      {"long queries too", {1, 0}, {1e30F, 0}, 9, {{0, 1}}},
  };

  for (const auto& each : cases) {
    for (const unsigned threads : {1U, 3U}) {
      EXPECT_EQ(top_k(each.matrix, each.query, each.k, threads), each.expected) << each.name;
    }
  }
}

TEST(TopK, IsTheNearestByOtherSimilarities) {
  const Numbers matrix{1, 0, 5, 5, 0, 0, nan, 1, 2, 0};
  EXPECT_EQ(top_k(matrix, Numbers{2, 0}, 9, 1, Similarity::dot), (Matches{{1, 10}, {4, 4}, {0, 2}, {2, 0}}));
  EXPECT_EQ(top_k(matrix, Numbers{2, 0}, 9, 2, Similarity::manhattan), (Matches{{4, 0}, {0, -1}, {2, -2}, {1, -8}}));
  EXPECT_EQ(top_k(matrix, Numbers{2, 4}, 2, 1, Similarity::euclidean), (Matches{{1, -std::sqrt(10.0F)}, {4, -4}}));
  EXPECT_EQ(top_k(matrix, Numbers{0, 0}, 1, 1, Similarity::euclidean), (Matches{{2, 0}})) << "needs no direction";
}

TEST(TopK, RefusesWhatHasNoDirection) {
  const Numbers matrix{1, 2, 3, 4};
  for (const Numbers& query : {Numbers{}, Numbers{0, 0}, Numbers{nan, 1}, Numbers{infinity, 1}, Numbers{1, 2, 3}}) {
    try {
      (void)top_k(matrix, query, 1);
      ADD_FAILURE() << testing::PrintToString(query);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    }
  }
}

TEST(TopK, AgreesWithSortingAllOnAnyNumberOfThreads) {
  std::mt19937 random(7);  // NOLINT: the same vectors each time
  std::normal_distribution<float> element;
  for (const std::size_t width : {1U, 15U, 16U, 37U, 64U}) {
    constexpr std::size_t rows = 5000, k = 40;
    Numbers matrix(rows * width), query(width);
    for (float& number : matrix) number = element(random);
    for (float& number : query) number = element(random);
    // Some are there again, so that there are equals among the nearest.
    for (std::size_t row = 3000; row < rows; ++row) {
      std::copy_n(matrix.begin() + static_cast<std::ptrdiff_t>((row - 3000) * width), width,
                  matrix.begin() + static_cast<std::ptrdiff_t>(row * width));
    }
    std::vector<double> cosines;
    for (std::size_t row = 0; row < rows; ++row) {
      double product = 0, squares = 0, length = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const double value = matrix[row * width + i];
        product += value * query[i];
        squares += value * value;
        length += double{query[i]} * double{query[i]};
      }
      cosines.push_back(product / std::sqrt(squares * length));
    }
    const Matches one = top_k(matrix, query, k);
    ASSERT_EQ(one.size(), k);
    std::vector<double> sorted = cosines;
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t i = 0; i < k; ++i) {
      EXPECT_NEAR(one[i].score, sorted[i], 1e-6);
      EXPECT_NEAR(one[i].score, cosines[one[i].index], 1e-6);
      const bool equal = i != 0 && one[i].score == one[i - 1].score;
      EXPECT_TRUE(!equal || one[i].index > one[i - 1].index);
    }
    for (const unsigned threads : {2U, 7U}) EXPECT_EQ(top_k(matrix, query, k, threads), one);
  }
}

}  // namespace
}  // namespace gpux::embedding
