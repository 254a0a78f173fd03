#include "generation/cache_budget.h"

#include <vector>

#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

constexpr std::uint64_t first_age = 1, second_age = 2, third_age = 3;

struct Member {
  explicit Member(const std::shared_ptr<CacheBudget>& budget, std::uint64_t least = 0)
      : share(budget, least, [this] { ++releases; }) {}

  int releases = 0;
  CacheShare share;
};

TEST(CacheBudget, IsOneForAllItsShares) {
  const auto budget = std::make_shared<CacheBudget>(100);
  Member one(budget), other(budget);
  EXPECT_TRUE(one.share.resize(70, first_age));
  EXPECT_FALSE(other.share.resize(31, second_age));
  EXPECT_TRUE(other.share.resize(30, second_age));
  EXPECT_EQ(budget->held_bytes(), 100);
  EXPECT_FALSE(one.share.resize(71, first_age));
  one.share.shrink(40);
  EXPECT_TRUE(other.share.resize(60, second_age));
  {
    Member third(budget);
    EXPECT_FALSE(third.share.resize(1, third_age));
    EXPECT_TRUE(other.share.resize(10, second_age));
    EXPECT_TRUE(third.share.resize(50, third_age));
  }
  EXPECT_EQ(budget->held_bytes(), 50);
}

TEST(CacheBudget, IsAtLeastWhatOneOfThemNeeds) {
  const auto budget = std::make_shared<CacheBudget>(100);
  {
    Member large(budget, 300);
    EXPECT_EQ(budget->limit_bytes(), 300);
    EXPECT_TRUE(large.share.resize(300, first_age));
  }
  EXPECT_EQ(budget->limit_bytes(), 100);
}

// Otherwise each of two would hold what the other waits for.
TEST(CacheBudget, GivesToTheOlderTextFirst) {
  const auto budget = std::make_shared<CacheBudget>(100);
  Member older(budget), younger(budget), youngest(budget);
  ASSERT_TRUE(older.share.resize(40, first_age));
  ASSERT_TRUE(younger.share.resize(50, second_age));
  EXPECT_FALSE(younger.share.resize(70, second_age));
  EXPECT_TRUE(younger.share.wait(second_age)) << "nobody older waits: it keeps what it has";
  EXPECT_EQ(older.releases, 2) << "asked by both";
  EXPECT_EQ(younger.releases, 0);
  EXPECT_EQ(youngest.releases, 0) << "it holds nothing";
  EXPECT_TRUE(older.share.resize(50, first_age)) << "an older one grows meanwhile";
  EXPECT_FALSE(youngest.share.resize(0 + 1, third_age)) << "a younger one does not";
  EXPECT_FALSE(older.share.resize(90, first_age));
  EXPECT_TRUE(older.share.wait(first_age));
  EXPECT_FALSE(younger.share.wait(second_age)) << "it gives up all";
  younger.share.shrink(0);
  EXPECT_FALSE(younger.share.resize(10, second_age)) << "as long as the older one waits";
  EXPECT_TRUE(older.share.resize(90, first_age));
  EXPECT_TRUE(younger.share.resize(10, second_age));
  older.share.shrink(0);
  EXPECT_TRUE(youngest.share.resize(5, third_age)) << "nobody waits any more";
}

TEST(CacheBudget, ForgetsWhoWaitsWithoutATextOrHasGone) {
  const auto budget = std::make_shared<CacheBudget>(100);
  Member other(budget);
  {
    Member waiting(budget);
    EXPECT_TRUE(waiting.share.wait(first_age));
    EXPECT_FALSE(other.share.resize(1, second_age));
    waiting.share.stop_waiting();
    EXPECT_TRUE(other.share.resize(1, second_age));
    EXPECT_TRUE(waiting.share.wait(first_age));
  }
  EXPECT_TRUE(other.share.resize(2, second_age));
}

TEST(CacheBudget, LimitsFollowFromTheMemoryOfModels) {
  struct Case {
    std::uint64_t usable, memory, models;
    CacheLimits limits;
  };

  for (const Case& c : std::vector<Case>{{1000, 0, 0, {500, 1000}},
                                         {1000, 0, 400, {300, 600}},
                                         {1000, 0, 1200, {0, 0}},
                                         {1000, 800, 400, {200, 400}},
                                         {1000, 2000, 400, {300, 600}},
                                         {1000, 800, 700, {100, 100}},
                                         {1000, 800, 900, {100, 100}}}) {
    EXPECT_EQ(cache_limits(c.usable, c.memory, c.models), c.limits) << c.usable << " " << c.memory << " " << c.models;
  }
}

TEST(CacheBudget, OfTheProcessCountsModelsInWorkerProcesses) {
  CacheBudget& budget = *CacheBudget::of_process();
  budget.set_memory(0);
  budget.measure(0);
  const std::uint64_t all = budget.limit_bytes();
  // Most of the memory is in worker processes; what the test itself takes meanwhile is little beside it.
  budget.measure(all);
  EXPECT_LT(budget.limit_bytes(), all - all / 4);
  budget.set_memory(0);
  EXPECT_LT(budget.limit_bytes(), all - all / 4) << "another limit forgets the worker processes";
  budget.measure(0);
  EXPECT_GT(budget.limit_bytes(), all - all / 4);
}

TEST(CacheBudget, OfTheProcessIsHalfOfWhatModelsLeave) {
  CacheBudget& budget = *CacheBudget::of_process();
  budget.set_memory(0);
  EXPECT_GT(budget.limit_bytes(), 0);
  EXPECT_LE(budget.limit_bytes(), budget.free_bytes() / 2);
  constexpr std::uint64_t small = 8 << 20;
  budget.set_memory(small);  // models take more
  EXPECT_EQ(budget.limit_bytes(), small / 8);
  budget.set_memory(0);
}

}  // namespace
}  // namespace gpux::generation
