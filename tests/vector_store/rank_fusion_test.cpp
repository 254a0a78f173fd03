#include "vector_store/rank_fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::vector_store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Lists = std::vector<std::vector<std::string>>;

TEST(RankFusion, SumsTheReciprocalsOfRanks) {
  EXPECT_THAT(fuse_ranks(Lists{{"a", "b"}, {"b", "c"}}),
              ElementsAre(FusedRank{"b", 1.0 / 62 + 1.0 / 61}, FusedRank{"a", 1.0 / 61}, FusedRank{"c", 1.0 / 62}));
  EXPECT_THAT(fuse_ranks(Lists{{"a", "b"}, {"b"}}, 0), ElementsAre(FusedRank{"b", 1.5}, FusedRank{"a", 1.0}));
}

TEST(RankFusion, TakesTheLesserIdOfEqualScores) {
  EXPECT_THAT(fuse_ranks(Lists{{"b"}, {"a"}}), ElementsAre(FusedRank{"a", 1.0 / 61}, FusedRank{"b", 1.0 / 61}));
}

TEST(RankFusion, CountsAnIdOnceInAList) {
  EXPECT_THAT(fuse_ranks(Lists{{"a", "a", "b"}}), ElementsAre(FusedRank{"a", 1.0 / 61}, FusedRank{"b", 1.0 / 63}));
  EXPECT_THAT(fuse_ranks(Lists{{}, {}}), IsEmpty());
}

}  // namespace
}  // namespace gpux::vector_store
