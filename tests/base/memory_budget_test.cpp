#include "base/memory_budget.h"

#include <gtest/gtest.h>

namespace gpux {
namespace {

TEST(MemoryBudget, RefusesWhatExceedsItsLimitAndTakesNothingThen) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_FALSE(budget.take(UINT64_MAX));
  EXPECT_EQ(budget.held_bytes(), 60U);
  EXPECT_TRUE(budget.take(40));
  budget.give_back(100);
  EXPECT_EQ(budget.held_bytes(), 0U);
}

TEST(MemoryShare, GivesBackWhatItTookWhenItEnds) {
  const auto budget = std::make_shared<MemoryBudget>(100);
  {
    MemoryShare share(budget);
    EXPECT_TRUE(share.grow(30));
    EXPECT_FALSE(share.grow(71));
    EXPECT_TRUE(share.resize(90));
    EXPECT_EQ(budget->held_bytes(), 90U);
    EXPECT_TRUE(share.resize(10));
    EXPECT_EQ(budget->held_bytes(), 10U);
    MemoryShare moved(std::move(share));
    EXPECT_EQ(moved.bytes(), 10U);
    MemoryShare other(budget);
    EXPECT_TRUE(other.grow(50));
    other = std::move(moved);
    EXPECT_EQ(budget->held_bytes(), 10U);
  }
  EXPECT_EQ(budget->held_bytes(), 0U);
}

TEST(MemoryReclaimer, IsCalledForAsLongAsItLives) {
  const auto budget = std::make_shared<MemoryBudget>(100);
  int first = 0, second = 0;
  const MemoryReclaimer stays(budget, [&] { ++first; });
  {
    const MemoryReclaimer ends(budget, [&] { ++second; });
    budget->reclaim();
  }
  budget->reclaim();
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

TEST(MemoryShare, WithoutABudgetHasNoLimit) {
  MemoryShare share;
  EXPECT_TRUE(share.grow(UINT64_MAX));
  EXPECT_TRUE(share.resize(1));
}

}  // namespace
}  // namespace gpux
