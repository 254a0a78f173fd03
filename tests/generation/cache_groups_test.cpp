#include "generation/cache_groups.h"

#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

TEST(CacheGroups, RunAsTheyAreWhereLittleIsWasted) {
  struct Case {
    const char* what;
    GroupRun run;
    bool expected;
  };

  constexpr GroupRun fitting{.rows = 8, .capacity = 256, .wanted_rows = 8, .wanted_capacity = 256, .tokens = 1};
  const auto with = [&](auto member, auto value) {
    GroupRun run = fitting;
    run.*member = value;
    return run;
  };
  const GroupRun alone{.rows = 1, .capacity = 256, .wanted_rows = 1, .wanted_capacity = 40, .tokens = 40};
  GroupRun prompt_of_two = alone;
  prompt_of_two.rows = 2;
  GroupRun one_of_two = prompt_of_two;
  one_of_two.tokens = 1;
  for (const Case& row :
       {Case{"all rows", fitting, true}, Case{"a position too few", with(&GroupRun::wanted_capacity, 257U), false},
        Case{"two of eight rows are others", with(&GroupRun::wanted_rows, 6U), false},
        Case{"one of eight rows is another", with(&GroupRun::wanted_rows, 7U), true},
        Case{"two of ten", {10, 256, 8, 256, 1}, true}, Case{"three of eleven", {11, 256, 8, 256, 1}, false},
        Case{"another has no room", {10, 256, 8, 256, 1, false}, false},
        Case{"no other row needs room", with(&GroupRun::has_room, false), true}, Case{"a prompt alone", alone, true},
        Case{"a prompt beside another row", prompt_of_two, false},
        Case{"a token beside another row", one_of_two, true}}) {
    EXPECT_EQ(runs_as_is(row.run), row.expected) << row.what;
  }
}

TEST(CacheGroups, GrowInBlocks) {
  EXPECT_EQ(capacity_for(0), 256);
  EXPECT_EQ(capacity_for(256), 256);
  EXPECT_EQ(capacity_for(257), 512);
  EXPECT_EQ(capacity_for(1000), 1024);
}

TEST(CacheGroups, AreCopiedToLessMemoryWhereMostRowsAreUnused) {
  EXPECT_FALSE(is_sparse(8, 0));  // nobody has them: they are freed
  EXPECT_TRUE(is_sparse(8, 3));
  EXPECT_FALSE(is_sparse(8, 4));
  EXPECT_FALSE(is_sparse(1, 1));
}

}  // namespace
}  // namespace gpux::generation
