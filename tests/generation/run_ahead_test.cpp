#include "generation/run_ahead.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>

namespace gpux::generation {
namespace {

using Costs = std::vector<std::pair<std::size_t, double>>;  // by length

StepCosts measured(std::size_t texts, const Costs& costs) {
  StepCosts all;
  all.add(texts, 1, 0.004);
  for (const auto& [length, cost] : costs) all.add(texts, length, 0.004 * cost);
  return all;
}

TEST(StepCosts, AreMeasuredOrBetweenThem) {
  const StepCosts costs = measured(1, {{4, 1.3}, {8, 2.1}});
  EXPECT_DOUBLE_EQ(costs.cost(1, 1), 1);
  EXPECT_DOUBLE_EQ(costs.cost(1, 4), 1.3);
  EXPECT_NEAR(costs.cost(1, 6), 1.7, 1e-12);
  EXPECT_NEAR(costs.cost(1, 2), 1.1, 1e-12);
  EXPECT_NEAR(costs.cost(1, 33), 2.1 * 2.32 / 1.32, 1e-12);
  // Of other numbers of texts nothing is known.
  EXPECT_NEAR(costs.cost(4, 4), 1.64 / 1.16, 1e-12);
  EXPECT_NEAR(StepCosts().cost(1, 2), 1.08 / 1.04, 1e-12);
}

// Steps of longer texts take longer, and cost the same.
TEST(StepCosts, AreThoseOfTheTextsAtHand) {
  StepCosts costs = measured(1, {{4, 1.3}});
  for (int i = 0; i < 20; ++i) costs.add(1, 1, 0.040);
  for (int i = 0; i < 60; ++i) costs.add(1, 4, 0.040 * 1.5);
  EXPECT_NEAR(costs.cost(1, 4), 1.5, 1e-3);
  StepCosts dear = measured(1, {{4, 6.0}});
  for (int i = 0; i < 1000; ++i) dear.fade(1);
  EXPECT_NEAR(dear.cost(1, 4), 1.16 / 1.04, 1e-3);
  StepCosts unknown;
  unknown.add(1, 4, 0.1);
  EXPECT_NEAR(unknown.cost(1, 4), 1.16 / 1.04, 1e-12);
}

TEST(PlanAhead, RunsAsManyTokensAsPay) {
  struct Case {
    std::vector<AheadRow> rows;
    Costs costs;
    std::size_t length;
  };

  const AheadRow nothing{.known = 1, .most = 100};
  const auto guess = [](std::size_t guessed, double acceptance, std::size_t most = 100) {
    return AheadRow{.known = 1, .guessed = guessed, .acceptance = acceptance, .most = most};
  };
  // A step of eight tokens takes half as long again as one of one.
  const Costs cheap{{8, 1.5}, {64, 6.0}}, dear{{2, 2.0}, {64, 64.0}};
  const std::vector<AheadRow> one_guess_of_sixteen = [&] {
    std::vector<AheadRow> rows(16, nothing);
    rows.front() = guess(7, 0.9);
    return rows;
  }();
  const std::vector<Case> cases{
      {{}, cheap, 1},
      {{nothing}, cheap, 1},
      {{guess(7, 1)}, cheap, 8},
      {{guess(63, 1)}, cheap, 64},
      {{guess(63, 0.5)}, cheap, 4},
      {{guess(7, 0.05)}, cheap, 1},
      {{guess(7, 0.95)}, dear, 1},
      // No more than there is room for, or than is guessed.
      {{guess(63, 1, 3)}, cheap, 3},
      {{guess(63, 1, 1)}, cheap, 1},
      {{guess(3, 1)}, cheap, 4},
      // Known tokens are certain.
      {{{.known = 12, .most = 100}}, cheap, 12},
      {{{.known = 100, .most = 200}}, cheap, 64},
      {{{.known = 100, .most = 200}}, dear, 1},
      // One guess does not pay for the empty places of fifteen others.
      {one_guess_of_sixteen, {{4, 2.5}}, 1},
      {{guess(7, 0.9), guess(7, 0.9), guess(7, 0.9), guess(7, 0.9)}, {{8, 2.0}}, 8},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const StepCosts costs = measured(std::max<std::size_t>(cases[i].rows.size(), 1), cases[i].costs);
    EXPECT_EQ(plan_ahead(cases[i].rows, costs), cases[i].length) << "case " << i;
  }
}

TEST(Acceptance, FollowsWhatWasRight) {
  Acceptance one;
  EXPECT_DOUBLE_EQ(one.probability(), 0.5);
  one.add(3, true);
  EXPECT_DOUBLE_EQ(one.probability(), 0.8);
  for (int i = 0; i < 30; ++i) one.add(0, false);
  EXPECT_LT(one.probability(), 0.1);
  for (int i = 0; i < 30; ++i) one.add(4, true);
  EXPECT_GT(one.probability(), 0.9);
  Acceptance unlucky;
  for (int i = 0; i < 30; ++i) unlucky.add(0, false);
  const double before = unlucky.probability();
  for (int i = 0; i < 50; ++i) unlucky.fade();
  EXPECT_GT(unlucky.probability(), 2 * before);
  for (int i = 0; i < 5000; ++i) unlucky.fade();
  EXPECT_NEAR(unlucky.probability(), 0.5, 0.01);
}

}  // namespace
}  // namespace gpux::generation
