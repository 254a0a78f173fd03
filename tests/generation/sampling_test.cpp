#include "generation/sampling.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generation/leading_share.h"

namespace gpux::generation {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr float none = -std::numeric_limits<float>::infinity();

std::vector<std::size_t> kept(const std::vector<float>& logits) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > none) places.push_back(i);
  }
  return places;
}

// Logits of the probabilities 0.1, 0.4, 0.05, 0.25, 0.2.
std::vector<float> logits() {
  return {std::log(0.1F), std::log(0.4F), std::log(0.05F), std::log(0.25F), std::log(0.2F)};
}

// Whatever is sorted at a time.
TEST(TopP, KeepsTheSameOfManyTokens) {
  std::mt19937 random(3);
  std::vector<float> values(9000);
  for (float& value : values) value = static_cast<float>(random() % 700) / 100;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  double all = 0;
  for (const float value : values) all += std::exp(static_cast<double>(value));
  for (const float p : {0.01F, 0.3F, 0.9F, 0.999F}) {
    std::vector<std::size_t> expected;
    double sum = 0;
    for (std::size_t i = 0; i < order.size() && sum < p * all; ++i) {
      expected.push_back(order[i]);
      sum += std::exp(static_cast<double>(values[order[i]]));
    }
    std::ranges::sort(expected);
    std::vector<float> changed = values;
    keep_top_p(changed, p);
    EXPECT_EQ(kept(changed), expected) << p;
  }
}

TEST(TopK, KeepsTheHighestAndTheirEquals) {
  struct Row {
    std::uint32_t k;
    std::vector<std::size_t> places;
  };

  for (const Row& row :
       std::vector<Row>{{0, {0, 1, 2, 3, 4}}, {1, {1}}, {3, {1, 3, 4}}, {5, {0, 1, 2, 3, 4}}, {9, {0, 1, 2, 3, 4}}}) {
    std::vector<float> values = logits();
    keep_top_k(values, row.k);
    EXPECT_EQ(kept(values), row.places) << row.k;
  }
  std::vector<float> equal{1, 2, 2, 0};
  keep_top_k(equal, 1);
  EXPECT_THAT(kept(equal), ElementsAre(1, 2));
}

// The sets that transformers 5.23 keeps (TopPLogitsWarper, MinPLogitsWarper, TypicalLogitsWarper).
TEST(TopP, KeepsTheFewestThatHaveTheShare) {
  struct Row {
    float p;
    std::vector<std::size_t> places;
  };

  for (const Row& row :
       std::vector<Row>{{1, {0, 1, 2, 3, 4}}, {0.9F, {0, 1, 3, 4}}, {0.6F, {1, 3}}, {0.39F, {1}}, {1e-6F, {1}}}) {
    std::vector<float> values = logits();
    keep_top_p(values, row.p);
    EXPECT_EQ(kept(values), row.places) << row.p;
  }
}

TEST(MinP, IsAShareOfTheHighestProbability) {
  struct Row {
    float p;
    std::vector<std::size_t> places;
  };

  for (const Row& row :
       std::vector<Row>{{0, {0, 1, 2, 3, 4}}, {0.2F, {0, 1, 3, 4}}, {0.49F, {1, 3, 4}}, {0.55F, {1, 3}}, {1, {1}}}) {
    std::vector<float> values = logits();
    keep_min_p(values, row.p);
    EXPECT_EQ(kept(values), row.places) << row.p;
  }
}

TEST(Typical, KeepsWhatIsNearestToTheEntropy) {
  struct Row {
    float p;
    std::vector<std::size_t> places;
  };

  // Entropy 1.415; -log p - entropy: 0.888, -0.499, 1.581, -0.029, 0.194.
  for (const Row& row :
       std::vector<Row>{{1, {0, 1, 2, 3, 4}}, {0.2F, {3}}, {0.4F, {3, 4}}, {0.8F, {1, 3, 4}}, {0.9F, {0, 1, 3, 4}}}) {
    std::vector<float> values = logits();
    keep_typical(values, row.p);
    EXPECT_EQ(kept(values), row.places) << row.p;
  }
}

TEST(Penalties, CountPromptAndTextAsTheirDefinitionsSay) {
  TokenCounts counts;
  counts.add_prompt(std::vector<std::uint32_t>{0, 0});
  for (const std::uint32_t token : {1U, 2U, 2U, 99U}) counts.add_generated(token);
  Sampling sampling;
  sampling.repetition_penalty = 2;
  std::vector<float> values{4, -4, 1, 3};
  apply_penalties(values, counts, sampling);
  EXPECT_THAT(values, ElementsAre(2, -8, 0.5F, 3));
  for (const auto& [window, penalized] :
       std::vector<std::pair<std::size_t, std::vector<float>>>{{6, {2, -8, 0.5F, 3}},
                                                               {5, {2, -8, 0.5F, 3}},
                                                               {4, {4, -8, 0.5F, 3}},
                                                               {3, {4, -4, 0.5F, 3}},
                                                               {2, {4, -4, 0.5F, 3}},
                                                               {1, {4, -4, 1, 3}},
                                                               {100, {2, -8, 0.5F, 3}}}) {
    sampling.repetition_window = window;
    values = {4, -4, 1, 3};
    apply_penalties(values, counts, sampling);
    EXPECT_EQ(values, penalized) << window;
  }

  sampling.repetition_penalty = 1;
  sampling.presence_penalty = 1;
  sampling.frequency_penalty = 0.5F;
  values = {4, -4, 1, 3};
  apply_penalties(values, counts, sampling);
  EXPECT_THAT(values, ElementsAre(4, -5.5F, -1, 3));

  sampling = {};
  sampling.logit_bias = {{3, -100}, {0, 2}, {1000, 5}};
  values = {4, -4, 1, 3};
  apply_penalties(values, counts, sampling);
  EXPECT_THAT(values, ElementsAre(6, -4, 1, -97));
}

TEST(TokenCounts, HaveEachTokenOnce) {
  TokenCounts counts;
  std::vector<std::uint32_t> prompt(20'000);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::uint32_t>(i % 3);
  counts.add_prompt(prompt);
  counts.add_generated(7);
  counts.add_generated(2);
  counts.add_generated(7);
  using Entry = TokenCounts::Entry;
  EXPECT_THAT(counts.entries(),
              ElementsAre(Entry{0, 0, 19'998}, Entry{1, 0, 19'999}, Entry{2, 1, 20'001}, Entry{7, 2, 20'002}));
  EXPECT_EQ(counts.size(), 20'003U);
}

// Where all tokens are equally probable, nearly all of them have to be looked at, but not sorted.
TEST(LeadingShare, ComparesATokenAFewTimes) {
  constexpr std::size_t count = 150'000;
  std::mt19937 random(5);
  std::vector<double> shares(count);
  double sum = 0;
  for (double& share : shares) sum += share = 1 + static_cast<double>(random() % 1000) / 1000;
  for (double& share : shares) share /= sum;
  for (const double p : {0.01, 0.5, 0.9, 0.999}) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::size_t comparisons = 0;
    const std::size_t kept = leading_share(std::span(order), shares, p, [&](std::uint32_t a, std::uint32_t b) {
      ++comparisons;
      return shares[a] != shares[b] ? shares[a] > shares[b] : a < b;
    });
    double first = 0, least = 1, rest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i < kept) first += shares[order[i]], least = std::min(least, shares[order[i]]);
      if (i >= kept) rest = std::max(rest, shares[order[i]]);
    }
    EXPECT_NEAR(first, p, 2.0 / count) << p;
    EXPECT_GE(least, rest) << p;
    EXPECT_LT(comparisons, 12 * count) << p;
  }
}

TEST(Greedy, TakesTheFirstOfTheHighestAndNeverNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(greedy_token(std::vector<float>{1, 3, 3}), 1);
  EXPECT_EQ(greedy_token(std::vector<float>{nan, -2, nan}), 1);
  EXPECT_EQ(greedy_token(std::vector<float>{none, none}), 0);
  // Of many, the first of the highest, wherever it is.
  for (const std::size_t at : {0U, 15U, 16U, 1023U, 1024U, 4998U}) {
    std::vector<float> many(5000, -1);
    many[2] = nan;
    many[at] = many[4999] = 2;
    EXPECT_EQ(greedy_token(many), at);
  }
}

TEST(TokenAt, IsTheInverseOfTheSumOfProbabilities) {
  const std::vector<float> values = logits();

  struct Row {
    double share;
    std::uint32_t token;
  };

  for (const Row& row :
       std::vector<Row>{{0, 0}, {0.099, 0}, {0.101, 1}, {0.499, 1}, {0.501, 2}, {0.56, 3}, {0.81, 4}, {0.9999999, 4}}) {
    EXPECT_EQ(token_at(values, row.share), row.token) << row.share;
  }
  // What is left out is never taken.
  EXPECT_EQ(token_at(std::vector<float>{none, 0, none}, 0), 1);
  EXPECT_EQ(token_at(std::vector<float>{none, 0, none}, 0.999), 1);
}

TEST(ShareOf, DependsOnSeedAndPositionAloneAndIsEven) {
  EXPECT_EQ(share_of(7, 3), share_of(7, 3));
  EXPECT_NE(share_of(7, 3), share_of(7, 4));
  EXPECT_NE(share_of(7, 3), share_of(8, 3));
  constexpr std::size_t draws = 20000, buckets = 10;
  std::array<int, buckets> counts{};
  for (std::uint64_t i = 0; i < draws; ++i) {
    const double share = share_of(i / 100, i % 100);
    ASSERT_GE(share, 0);
    ASSERT_LT(share, 1);
    ++counts.at(static_cast<std::size_t>(share * buckets));
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - 2000.0, 2) / 2000;
  EXPECT_LT(chi_square, 27.9);  // 9 degrees of freedom, 0.999
}

TEST(ChooseToken, DrawsFromTheProbabilities) {
  Sampling sampling;
  sampling.temperature = 1;
  constexpr std::uint64_t draws = 20000;
  std::array<int, 5> counts{};
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    std::vector<float> values = logits();
    sampling.seed = seed;
    ++counts.at(choose_token(values, {}, 0, sampling));
  }
  const std::array<double, 5> expected{2000, 8000, 1000, 5000, 4000};
  double chi_square = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) chi_square += std::pow(counts[i] - expected[i], 2) / expected[i];
  EXPECT_LT(chi_square, 18.5);  // 4 degrees of freedom, 0.999
}

TEST(ChooseToken, TemperatureZeroIsGreedy) {
  std::vector<float> values = logits();
  EXPECT_EQ(choose_token(values, {}, 0, {}), 1);
}

// It looks at fewer tokens than the steps one by one, and chooses the same.
TEST(ChooseToken, EqualsTheSamplingStepsOneByOne) {
  std::mt19937 random(11);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<float> values(1 + random() % 400);
    // Few different ones: many are equal at the border.
    const unsigned levels = 1 + random() % 40;
    for (float& value : values) value = static_cast<float>(random() % levels) / 3;
    for (int i = 0; i < 3; ++i) values[random() % values.size()] = i == 0 ? nan : none;
    values[random() % values.size()] = 1;
    Sampling sampling;
    sampling.temperature = static_cast<float>(1 + random() % 30) / 10;
    sampling.top_k = static_cast<std::uint32_t>(random() % 60);
    sampling.top_p = static_cast<float>(1 + random() % 10) / 10;
    sampling.min_p = static_cast<float>(random() % 3) / 10;
    sampling.typical_p = static_cast<float>(5 + random() % 6) / 10;
    sampling.seed = random();
    std::vector<float> stepwise = values;
    for (float& value : stepwise) value /= sampling.temperature;
    for (float& value : stepwise) {
      if (std::isnan(value)) value = none;  // which no step keeps
    }
    keep_top_k(stepwise, sampling.top_k);
    keep_top_p(stepwise, sampling.top_p);
    keep_min_p(stepwise, sampling.min_p);
    keep_typical(stepwise, sampling.typical_p);
    const std::uint32_t expected = token_at(stepwise, share_of(sampling.seed, 2));
    EXPECT_EQ(choose_token(values, {}, 2, sampling), expected) << trial;
  }
}

}  // namespace
}  // namespace gpux::generation
