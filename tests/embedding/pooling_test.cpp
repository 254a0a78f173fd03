#include "embedding/pooling.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::embedding {
namespace {

using gpux::Pooling;
using testing::ElementsAre;
using testing::FloatEq;
using testing::Pointwise;

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Case {
  Pooling pooling;
  std::vector<std::uint8_t> mask;
  std::vector<float> expected;
};

TEST(Pooling, IsWhatSentenceTransformersDefines) {
  // Three tokens of width 2.
  const std::vector<float> hidden{1, -8, 4, -2, 10, -5};
  const std::vector<Case> cases{
      {Pooling::cls, {1, 1, 1}, {1, -8}},
      {Pooling::cls, {0, 1, 1}, {4, -2}},
      {Pooling::cls, {0, 0, 0}, {1, -8}},
      {Pooling::max, {1, 1, 1}, {10, -2}},
      {Pooling::max, {1, 0, 1}, {10, -5}},
      {Pooling::max, {0, 0, 0}, {-infinity, -infinity}},
      {Pooling::mean, {1, 1, 1}, {5, -5}},
      {Pooling::mean, {1, 1, 0}, {2.5, -5}},
      {Pooling::mean, {0, 0, 0}, {0, 0}},
      {Pooling::mean_sqrt_length, {1, 1, 1}, {15 / std::sqrt(3.0F), -15 / std::sqrt(3.0F)}},
      {Pooling::mean_sqrt_length, {0, 1, 0}, {4, -2}},
      {Pooling::mean_sqrt_length, {0, 0, 0}, {0, 0}},
      // (1·1 + 2·4 + 3·10) / 6, (-8 - 4 - 15) / 6; without the second token (1 + 30) / 4, (-8 - 15) / 4.
      {Pooling::weighted_mean, {1, 1, 1}, {6.5, -4.5}},
      {Pooling::weighted_mean, {1, 0, 1}, {7.75, -5.75}},
      {Pooling::weighted_mean, {0, 0, 0}, {0, 0}},
      {Pooling::last_token, {1, 1, 1}, {10, -5}},
      {Pooling::last_token, {1, 1, 0}, {4, -2}},
      {Pooling::last_token, {0, 0, 0}, {0, 0}},
  };
  for (const Case& each : cases) {
    std::vector<float> vector;
    append_pooled(each.pooling, hidden, each.mask, vector);
    EXPECT_THAT(vector, Pointwise(FloatEq(), each.expected))
        << "pooling " << static_cast<int>(each.pooling) << ", mask " << testing::PrintToString(each.mask);
  }
}

TEST(Pooling, IsAppended) {
  std::vector<float> vector{7};
  append_pooled(Pooling::last_token, std::vector<float>{1, 2}, std::vector<std::uint8_t>{1, 0}, vector);
  append_pooled(Pooling::max, std::vector<float>{1, 2}, std::vector<std::uint8_t>{1, 1}, vector);
  EXPECT_THAT(vector, ElementsAre(7, 1, 2));
}

TEST(Pooling, HasTheNamesOfConfigurations) {
  EXPECT_EQ(checkpoint::pooling_from("mean_sqrt_len_tokens"), Pooling::mean_sqrt_length);
  EXPECT_EQ(checkpoint::pooling_from("weightedmean"), Pooling::weighted_mean);
  EXPECT_EQ(checkpoint::pooling_from("lasttoken"), Pooling::last_token);
  EXPECT_EQ(checkpoint::pooling_from("median"), std::nullopt);
}

TEST(Normalize, DividesByTheLength) {
  struct {
    std::vector<float> vector, expected;
  } const cases[]{
      {{3, -4}, {0.6F, -0.8F}},
      {{0, 0, 0}, {0, 0, 0}},
      {{-5e-13F}, {-0.5F}},  // shorter than 1e-12
      {{3e30F, 4e30F}, {0.6F, 0.8F}},
  };

  for (const auto& [vector, expected] : cases) {
    std::vector<float> normalized = vector;
    normalize(normalized);
    EXPECT_THAT(normalized, Pointwise(FloatEq(), expected));
  }
}

TEST(FinishVector, CutsAsRequestedOrAsTheFolderSays) {
  struct {
    const char* name;
    std::size_t dimensions;
    std::optional<bool> is_normalized;
    VectorSettings settings;
    std::vector<float> expected;
  } const cases[]{
      {"as it is", 0, {}, {}, {6, 0, 8}},
      {"normalized by the model", 0, {}, {.normalizes = true}, {0.6F, 0, 0.8F}},
      {"truncate_dim after the normalization", 0, {}, {.truncate_dim = 2, .normalizes = true}, {0.6F, 0}},
      {"truncate_dim normalized by request", 0, true, {.truncate_dim = 2, .normalizes = true}, {1, 0}},
      {"truncate_dim of what is not normalized", 0, false, {.truncate_dim = 2, .normalizes = true}, {6, 0}},
      {"a request", 1, {}, {}, {1}},
      {"a request not normalized", 1, false, {.normalizes = true}, {6}},
      {"a request before truncate_dim", 3, {}, {.truncate_dim = 2}, {6, 0, 8}},
  };

  for (const auto& each : cases) {
    std::vector<float> vector{6, 0, 8};
    finish_vector(vector, each.dimensions, each.is_normalized, each.settings);
    EXPECT_THAT(vector, Pointwise(FloatEq(), each.expected)) << each.name;
  }
}

}  // namespace
}  // namespace gpux::embedding
