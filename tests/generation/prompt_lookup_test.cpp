#include "generation/prompt_lookup.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>

namespace gpux::generation {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<std::uint32_t>;

TEST(PromptLookup, GuessesWhatFollowedTheSameTokens) {
  struct Case {
    Tokens tokens, guessed;
  };

  const std::vector<Case> cases{
      {{}, {}},
      {{1, 2}, {}},
      {{1, 2, 3, 4, 5, 6}, {}},
      // Two tokens are too few.
      {{1, 2, 9, 8, 7, 1, 2}, {}},
      {{1, 2, 3, 4, 5, 6, 1, 2, 3}, {4, 5, 6, 1}},
      // The latest of several.
      {{1, 2, 3, 4, 1, 2, 3, 5, 6, 1, 2, 3}, {5, 6, 1, 2}},
      // Rather the one with more tokens before it.
      {{9, 1, 2, 3, 4, 8, 1, 2, 3, 5, 9, 1, 2, 3}, {4, 8, 1, 2}},
      // It goes on behind the end of the text.
      {{1, 2, 3, 1, 2, 3}, {1, 2, 3, 1}},
      {{7, 7, 7, 7}, {7, 7, 7, 7}},
  };
  for (const Case& one : cases) {
    PromptLookup lookup;
    EXPECT_EQ(lookup.guess(one.tokens, 4), one.guessed) << testing::PrintToString(one.tokens);
    EXPECT_THAT(lookup.guess(one.tokens, 0), IsEmpty());
    // Token by token.
    PromptLookup growing;
    Tokens so_far, last;
    for (const std::uint32_t token : one.tokens) {
      so_far.push_back(token);
      last = growing.guess(so_far, 4);
    }
    EXPECT_EQ(last, one.guessed) << testing::PrintToString(one.tokens);
  }
}

TEST(PromptLookup, LooksAtTheEndOfALongPrompt) {
  Tokens tokens{1, 2, 3, 4};
  for (std::uint32_t i = 0; i < PromptLookup::max_prompt; ++i) tokens.push_back(100 + i);
  tokens.insert(tokens.end(), {1, 2, 3});
  PromptLookup lookup;
  EXPECT_THAT(lookup.guess(tokens, 4), IsEmpty());
  tokens.insert(tokens.end(), {8, 1, 2, 3});
  EXPECT_THAT(lookup.guess(tokens, 1), ElementsAre(8));
}

TEST(PromptLookup, LooksAtAFewPlacesOfMany) {
  Tokens tokens;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    tokens.insert(tokens.end(), {1, 2, 3, static_cast<std::uint32_t>(10 + random() % 1000)});
  }
  tokens.insert(tokens.end(), {5, 1, 2, 3});
  PromptLookup lookup;
  EXPECT_THAT(lookup.guess(tokens, 1), ElementsAre(tokens[tokens.size() - 5]));
}

}  // namespace
}  // namespace gpux::generation
