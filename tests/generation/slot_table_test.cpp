#include "generation/slot_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

using Tokens = std::vector<std::uint32_t>;
using testing::ElementsAre;

TEST(SlotTable, KeepsThePromptOfWhoLeaves) {
  SlotTable slots(3);
  slots.take(0, 7, {"", Tokens{1, 2, 3, 4, 5}}, 0);
  slots.add_prompt(0, 4);
  slots.join();
  slots.add_generated(0);
  slots.add_generated(0);
  EXPECT_THAT(slots.sizes(), ElementsAre(6, 0, 0));
  slots.part();
  EXPECT_EQ(slots.leave(0), 4) << "what was generated is computed with other kernels";
  slots.check();
  EXPECT_EQ(slots.tokens(), 4);
  EXPECT_EQ(slots.owned(), 0);
}

TEST(SlotTable, KeepsTheWholeTextWhereItIsAsIfItWereAPrompt) {
  SlotTable slots(2);
  slots.take(0, 7, {"", Tokens{1, 2, 3, 4}}, 0);
  slots.add_prompt(0, 4);
  slots.join();
  slots.add_generated(0);
  slots.add_generated(0);
  slots.part();
  // The last token has not run.
  const Tokens text{1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(slots.leave(0, text), 6);
  slots.check();
  EXPECT_EQ(slots.longest_match("", Tokens{1, 2, 3, 4, 5, 6, 7, 8})->tokens, 6);
}

TEST(SlotTable, FindsTheLongestBeginning) {
  SlotTable slots(3);
  EXPECT_FALSE(slots.longest_match("", Tokens{1}).has_value());
  slots.take(1, 1, {"", Tokens{1, 2, 3, 4}}, 0);
  EXPECT_FALSE(slots.longest_match("", Tokens{1, 2}).has_value()) << "nothing of it was computed yet";
  slots.add_prompt(1, 2);
  slots.take(2, 2, {"", Tokens{1, 2, 9, 9}}, 0);
  slots.add_prompt(2, 4);
  const auto match = slots.longest_match("", Tokens{1, 2, 9, 4});
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->slot, 2);
  EXPECT_EQ(match->tokens, 3);
  EXPECT_EQ(slots.longest_match("", Tokens{1, 2, 3, 4})->tokens, 2) << "more of it is not there yet";
}

TEST(SlotTable, FindsWhatIsOfTheSameScopeAlone) {
  SlotTable slots(3);
  slots.take(0, 1, {"one", Tokens{1, 2, 3, 4}}, 0);
  slots.add_prompt(0, 4);
  slots.take(1, 2, {"two", Tokens{1, 2, 9, 9}}, 0);
  slots.add_prompt(1, 4);
  EXPECT_EQ(slots.longest_match("two", Tokens{1, 2, 3, 4})->slot, 1);
  EXPECT_EQ(slots.longest_match("two", Tokens{1, 2, 3, 4})->tokens, 2);
  EXPECT_FALSE(slots.longest_match("", Tokens{1, 2, 3, 4}).has_value());
  (void)slots.leave(0);
  EXPECT_EQ(slots.longest_match("one", Tokens{1, 2, 3, 4})->tokens, 4);
  EXPECT_FALSE(slots.longest_match("three", Tokens{1, 2, 3, 4}).has_value());
}

TEST(SlotTable, GivesEmptySlotsFirstThenTheOldest) {
  SlotTable slots(3);
  for (const std::size_t slot : {0U, 1U, 2U}) {
    slots.take(slot, slot, {"", Tokens{1, 2}}, 0);
    slots.add_prompt(slot, 2);
  }
  EXPECT_THROW((void)slots.free_slot(), Error);
  (void)slots.leave(1);
  (void)slots.leave(0);
  EXPECT_EQ(slots.free_slot(), 1);
  EXPECT_EQ(slots.free_slot(1), 0) << "1 is spared";
  EXPECT_EQ(slots.least_recent(), 1);
  slots.clear(0);
  EXPECT_EQ(slots.free_slot(), 0);
  EXPECT_EQ(slots.least_recent(), 1);
}

TEST(SlotTable, SaysWhereItsRulesDoNotHold) {
  SlotTable slots(2);
  slots.check();
  slots.join();
  EXPECT_THROW(slots.check(), Error) << "nobody has the slot that decodes";
  slots.part();
  slots.take(0, 1, {"", Tokens{1, 2}}, 0);
  slots.take(1, 1, {"", Tokens{1, 2}}, 0);
  EXPECT_THROW(slots.check(), Error) << "two slots for one sequence";
}

}  // namespace
}  // namespace gpux::generation
