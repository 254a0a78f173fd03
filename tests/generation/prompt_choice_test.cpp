// Which beginnings of prompts are in files: decisions alone.
#include "generation/prompt_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

using Tokens = std::vector<std::uint32_t>;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(PromptChoice, TakesTheLongestBeginningOfTheScope) {
  const Tokens one{1, 2, 3}, two{1, 2, 3, 4, 9}, foreign{1, 2, 3, 4, 5, 6};
  const std::vector<StoredBeginning> stored{{"a", one}, {"a", two}, {"b", foreign}};

  struct Case {
    std::string_view scope;
    Tokens prompt;
    std::optional<StoredMatch> match;
  };

  const std::vector<Case> cases{{"a", {1, 2, 3, 4, 5, 6}, StoredMatch{1, 4}},
                                {"a", {1, 2, 3}, StoredMatch{0, 3}},
                                {"a", {1, 5}, StoredMatch{0, 1}},
                                {"a", {2, 1}, std::nullopt},
                                {"a", {}, std::nullopt},
                                {"b", {1, 2, 3, 4, 5, 6}, StoredMatch{2, 6}},
                                {"", {1, 2, 3}, std::nullopt},
                                {"c", {1, 2, 3}, std::nullopt}};
  for (const Case& one_case : cases) EXPECT_EQ(longest_stored(stored, one_case.scope, one_case.prompt), one_case.match);
  EXPECT_EQ(longest_stored({}, "a", one), std::nullopt);
}

TEST(PromptChoice, StoresWhatIsLikelyToComeAgain) {
  struct Case {
    const char* name;
    ComputedPrompt prompt;
    std::size_t stored;
  };

  const std::vector<Case> cases{
      {"too short", {.tokens = 255}, 0},
      {"the first of its kind", {.tokens = 256}, 256},
      {"the first, with a short beginning of others", {.tokens = 2000, .shared = 200, .stored = 100}, 2000},
      {"stored already", {.tokens = 2000, .shared = 2000, .stored = 2000, .goes_on = true}, 0},
      {"another question behind the same instructions", {.tokens = 2100, .shared = 2000, .stored = 2000}, 0},
      {"another document behind them", {.tokens = 5000, .shared = 2000, .stored = 2000}, 0},
      {"the same document once more", {.tokens = 5000, .shared = 4900, .stored = 2000}, 4900},
      {"a little more of it once more", {.tokens = 5000, .shared = 2255, .stored = 2000}, 0},
      {"the next turn of a conversation", {.tokens = 2256, .stored = 2000, .goes_on = true}, 2256},
      {"a short turn", {.tokens = 2255, .stored = 2000, .goes_on = true}, 0},
      {"in memory, and in no file", {.tokens = 2000, .shared = 1998}, 2000}};
  for (const Case& one : cases) EXPECT_EQ(tokens_to_store(one.prompt), one.stored) << one.name;
}

TEST(PromptChoice, ReplacesWhatALongerOneBeginsWith) {
  const Tokens first{1, 2}, second{1, 2, 3}, other{1, 3}, longer{1, 2, 3, 4, 5};
  const std::vector<StoredBeginning> stored{{"a", first}, {"a", second}, {"a", other}, {"a", longer}, {"b", first}};
  EXPECT_THAT(replaced_by(stored, "a", Tokens{1, 2, 3, 4}), ElementsAre(0, 1));
  EXPECT_THAT(replaced_by(stored, "a", Tokens{1, 2, 3}), ElementsAre(0));
  EXPECT_THAT(replaced_by(stored, "b", Tokens{1, 2, 3, 4}), ElementsAre(4));
  EXPECT_THAT(replaced_by(stored, "c", Tokens{1, 2, 3, 4}), IsEmpty());
}

TEST(PromptChoice, RemovesTheFilesUsedLongestAgo) {
  const KeptFile old{"old", 40, 1}, middle{"middle", 30, 2}, fresh{"fresh", 20, 3};
  const std::vector<KeptFile> files{middle, fresh, old};

  struct Case {
    std::uint64_t limit, added;
    std::vector<KeptFile> removed;
  };

  const std::vector<Case> cases{{100, 10, {}},
                                {99, 10, {old}},
                                {60, 10, {old}},
                                {59, 10, {old, middle}},
                                {30, 10, {old, middle}},
                                {29, 10, {old, middle, fresh}},
                                {5, 10, {old, middle, fresh}},
                                {90, 0, {}}};
  for (const Case& one : cases) EXPECT_EQ(files_to_remove(files, one.limit, one.added), one.removed) << one.limit;
  // Of the same time the first by name, in each process.
  EXPECT_THAT(files_to_remove({{"b", 10, 1}, {"a", 10, 1}}, 15, 0), ElementsAre(KeptFile{"a", 10, 1}));
}

}  // namespace
}  // namespace gpux::generation
