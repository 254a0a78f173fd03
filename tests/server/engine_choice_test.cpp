#include "server/models/engine_choice.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

TEST(EngineChoice, KeepsPromptsThatBeginAlikeTogetherWhileTheLoadAllowsIt) {
  struct Case {
    std::vector<EngineLoad> engines;
    std::uint64_t beginning;
    std::size_t chosen;
  };

  const std::vector<Case> cases{
      {{{0, 16}}, 7, 0},
      {{{0, 16}, {0, 16}}, 7, 1},
      {{{0, 16}, {4, 16}}, 7, 1},
      {{{0, 16}, {5, 16}}, 7, 0},
      // Few slots: one more text at the most.
      {{{2, 1}, {3, 1}, {9, 1}}, 1, 1},
      {{{1, 1}, {3, 1}, {9, 1}}, 1, 0},
      {{{5, 4}, {2, 4}, {3, 4}}, 0, 1},
      // A device that is lost.
      {{{9, 4}, {0, 4, false}}, 1, 0},
      {{{9, 4, false}, {0, 4, false}}, 1, 1},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(choose_engine(cases[i].engines, cases[i].beginning), cases[i].chosen) << i;
  }
}

TEST(EngineChoice, KnowsABeginningByItsTokensAndItsScope) {
  std::vector<std::uint32_t> first(64, 5), longer = first;
  longer.push_back(9);
  EXPECT_EQ(beginning_of("a", first), beginning_of("a", longer));
  EXPECT_NE(beginning_of("a", first), beginning_of("b", first));
  std::vector<std::uint32_t> other = first;
  other[63] = 6;
  EXPECT_NE(beginning_of("a", first), beginning_of("a", other));
  // Spread over few engines.
  std::set<std::uint64_t> places;
  for (std::uint32_t token = 0; token < 32; ++token) {
    const std::vector<std::uint32_t> prompt{token};
    places.insert(beginning_of("", prompt) % 4);
  }
  EXPECT_EQ(places.size(), 4);
}

}  // namespace
}  // namespace gpux::server
