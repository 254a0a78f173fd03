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
    EXPECT_EQ(plan_ahead(cases[i].rows, costs), (AheadPlan{.length = cases[i].length})) << "case " << i;
  }
}

// Of a draft model whose steps take a tenth of the model's.
constexpr DraftShares tenth{.step = 0.1, .reading = 0.02};

AheadRow drafted(double acceptance, std::size_t unread = 0, std::size_t left = 400) {
  return {.known = 1,
          .most = 100,
          .draftable = std::min(max_drafted, left - 1),
          .draft_acceptance = acceptance,
          .unread = unread,
          .left = left};
}

TEST(PlanAhead, AsksTheDraftModelWhereItPays) {
  struct Case {
    const char* name;
    std::vector<AheadRow> rows;
    DraftShares shares;
    AheadPlan plan;
  };

  const auto with_own = [](AheadRow row, std::size_t guessed, double acceptance) {
    row.guessed = guessed;
    row.acceptance = acceptance;
    return row;
  };
  AheadRow little_room = drafted(0.8);
  little_room.most = 3;
  const AheadRow undrafted{.known = 1, .most = 100};
  const std::vector<Case> cases{
      {"a good one", {drafted(0.8)}, tenth, {.length = 6, .drafted = 5}},
      {"a certain one", {drafted(1)}, tenth, {.length = 9, .drafted = 8}},
      {"more texts than may run ahead",
       std::vector<AheadRow>(max_ahead + 1, drafted(1)),
       {.step = 0, .reading = 0},
       {}},
      {"a poor one", {drafted(0.1)}, tenth, {}},
      {"one as slow as the model", {drafted(0.9)}, {.step = 1, .reading = 0.02}, {}},
      {"no room for more", {little_room}, tenth, {.length = 3, .drafted = 2}},
      {"a text that ends", {drafted(0.8, 0, 2)}, tenth, {.length = 2, .drafted = 1}},
      {"a text of which one token is left", {drafted(0.8, 0, 1)}, tenth, {}},
      {"own guesses that are as good, and free", {with_own(drafted(0.8), 8, 0.8)}, tenth, {.length = 8}},
      {"own guesses that are poor", {with_own(drafted(0.8), 8, 0.1)}, tenth, {.length = 6, .drafted = 5}},
      {"a short prompt to read", {drafted(0.8, 500)}, tenth, {.length = 6, .drafted = 5}},
      {"a prompt that takes more than it gives", {drafted(0.8, 5000)}, tenth, {}},
      {"a prompt for a few tokens", {drafted(0.8, 500, 8)}, tenth, {}},
      {"one of two", {drafted(0.8), undrafted}, tenth, {.length = 5, .drafted = 4}},
      {"one of sixteen",
       [&] {
         std::vector<AheadRow> rows(16, undrafted);
         rows.front() = drafted(0.8);
         return rows;
       }(),
       tenth,
       {}},
  };
  for (const Case& one : cases) {
    const StepCosts costs = measured(one.rows.size(), {{8, 1.3}, {64, 6.0}});
    EXPECT_EQ(plan_ahead(one.rows, costs, &one.shares), one.plan) << one.name;
    AheadPlan without = plan_ahead(one.rows, costs);
    EXPECT_EQ(without.drafted, 0) << one.name;
  }
}

TEST(PlanAhead, TriesADraftModelWithTheTextThatIsReadFirst) {
  const AheadRow undrafted{.known = 1, .most = 100};
  AheadRow full = drafted(0.1);
  full.most = 1;
  EXPECT_EQ(text_for_trial({}), std::nullopt);
  EXPECT_EQ(text_for_trial(std::vector{undrafted, full}), std::nullopt);
  EXPECT_EQ(text_for_trial(std::vector{undrafted, drafted(0.1, 40), drafted(0.1, 9), drafted(0.1, 9)}), 2);
  const StepCosts costs = measured(2, {{trial_length + 1, 1.2}});
  EXPECT_NEAR(cost_of_trial(drafted(0.1, 50), 2, costs, tenth), 0.2 + 0.3 + 1.0, 1e-12);
}

TEST(DraftCosts, AreThoseOfTheSizeUntilTheyAreMeasured) {
  DraftCosts costs(0.25);
  EXPECT_DOUBLE_EQ(costs.shares(1, 0.004).step, 0.25);
  EXPECT_LT(costs.shares(1, 0.004).reading, 0.25);
  // First steps take longer.
  for (const double first : {0.1, 0.001, 0.001}) costs.add_steps(1, 1, first);
  EXPECT_FALSE(costs.is_known(1));
  EXPECT_DOUBLE_EQ(costs.shares(1, 0.004).step, 0.25);
  for (int i = 0; i < 20; ++i) costs.add_steps(1, 4, 0.004);
  EXPECT_TRUE(costs.is_known(1));
  EXPECT_FALSE(costs.is_known(2));
  EXPECT_NEAR(costs.shares(1, 0.004).step, 0.25, 1e-3);
  EXPECT_NEAR(costs.shares(1, 0.002).step, 0.5, 1e-3);
  EXPECT_NEAR(costs.shares(3, 0.004).step, 0.25, 1e-3) << "the nearest that is known";
  for (int i = 0; i < 4; ++i) costs.add_steps(4, 1, 0.003);
  EXPECT_NEAR(costs.shares(2, 0.004).step, 0.75, 1e-3);
  costs.add_reading(100, 0.01);
  EXPECT_DOUBLE_EQ(costs.shares(1, 0.004).reading, 0.025);
  costs.add_steps(1, 0, 1);
  costs.add_reading(0, 1);
  EXPECT_NEAR(costs.shares(1, 0.004).step, 0.25, 1e-3);
  for (int i = 0; i < 60; ++i) costs.add_steps(1, 1, 0.002);
  EXPECT_NEAR(costs.shares(1, 0.004).step, 0.5, 1e-3);
}

TEST(TrialTime, IsAHundredthOfAllRuns) {
  TrialTime time;
  EXPECT_FALSE(time.take(0.01));
  for (int i = 0; i < 99; ++i) time.add_run(0.01);
  EXPECT_FALSE(time.take(0.01));
  for (int i = 0; i < 2; ++i) time.add_run(0.01);
  EXPECT_TRUE(time.take(0.01));
  EXPECT_FALSE(time.take(0.01));
  // No more is saved than a trial takes, or a tenth of a second.
  for (int i = 0; i < 100; ++i) time.add_run(1);
  EXPECT_TRUE(time.take(0.09));
  EXPECT_FALSE(time.take(0.09));
  EXPECT_FALSE(time.take(0.5));
  for (int i = 0; i < 100; ++i) time.add_run(1);
  EXPECT_TRUE(time.take(0.49));
}

TEST(StepCosts, AreDueWhereNoStepHadOneToken) {
  StepCosts costs;
  EXPECT_TRUE(costs.is_due(1));
  costs.add(1, 1, 0.004);
  EXPECT_FALSE(costs.is_due(1));
  EXPECT_TRUE(costs.is_due(2));
  EXPECT_DOUBLE_EQ(costs.seconds(1), 0.004);
  EXPECT_DOUBLE_EQ(costs.seconds(2), 0);
  for (int i = 0; i < 64; ++i) costs.add(1, 4, 0.005);
  EXPECT_TRUE(costs.is_due(1));
  costs.add(1, 1, 0.004);
  EXPECT_FALSE(costs.is_due(1));
}

TEST(Acceptance, OfTheNextTextIsAsOfTheOthersAndChangesSooner) {
  Acceptance all;
  for (int i = 0; i < 30; ++i) all.add(4, true);
  Acceptance next = all.of_next_text();
  EXPECT_DOUBLE_EQ(next.probability(), all.probability());
  for (Acceptance* one : {&all, &next}) {
    for (int i = 0; i < 4; ++i) one->add(0, false);
  }
  EXPECT_LT(next.probability(), 0.7);
  EXPECT_GT(all.probability(), 0.75);
}

TEST(Acceptance, TakesMoreGuessesToChangeWhereItCountsAsMany) {
  Acceptance few, many(8);
  EXPECT_DOUBLE_EQ(many.probability(), 0.5);
  for (Acceptance* one : {&few, &many}) one->add(0, false);
  EXPECT_LT(few.probability(), 0.35);
  EXPECT_GT(many.probability(), 0.4);
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
