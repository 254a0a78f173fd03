#include "generation/step_plan.h"

#include <ostream>
#include <vector>

#include <gtest/gtest.h>

namespace gpux::generation {

void PrintTo(const Step& step, std::ostream* out) {
  *out << (step.kind == Step::Kind::none     ? "none"
           : step.kind == Step::Kind::prompt ? "prompt "
                                             : "decode")
       << step.tokens;
}

namespace {

constexpr std::size_t chunk = 8;
constexpr Step none{}, decode{Step::Kind::decode, 0};

Step prompt(std::size_t tokens) {
  return {Step::Kind::prompt, tokens};
}

Step planned(std::size_t decoding, const std::vector<std::size_t>& prompts, std::size_t in_turn = 0) {
  return plan_step({.decoding = decoding, .prompts = prompts, .prompt_tokens_in_turn = in_turn}, chunk);
}

TEST(StepPlan, TakesTurns) {
  EXPECT_EQ(planned(0, {}), none);
  EXPECT_EQ(planned(3, {}), decode);
  EXPECT_EQ(planned(0, {20}), prompt(8));
  EXPECT_EQ(planned(0, {6}), prompt(6));
  EXPECT_EQ(planned(3, {20}), prompt(8));
  EXPECT_EQ(planned(3, {12}, 8), decode);
}

TEST(StepPlan, ShortPromptsShareATurn) {
  EXPECT_EQ(planned(3, {2, 4, 20}), prompt(2));
  EXPECT_EQ(planned(3, {4, 20}, 2), prompt(4));
  EXPECT_EQ(planned(3, {20}, 6), decode);
  EXPECT_EQ(planned(0, {20}, 6), prompt(8)) << "nobody waits for it";
}

TEST(StepPlan, PromptsRunInEvenParts) {
  EXPECT_EQ(prompt_part(0), 0);
  EXPECT_EQ(prompt_part(1), 0);
  EXPECT_EQ(prompt_part(2), 2);
  EXPECT_EQ(prompt_part(7), 6);
}

TEST(StepPlan, ReuseLeavesTheTokensThatGiveTheLogits) {
  EXPECT_EQ(reusable_tokens(0, 9), 0);
  EXPECT_EQ(reusable_tokens(1, 9), 0);
  EXPECT_EQ(reusable_tokens(5, 9), 4);
  EXPECT_EQ(reusable_tokens(9, 9), 8) << "the last one runs alone";
  EXPECT_EQ(reusable_tokens(8, 8), 6);
  EXPECT_EQ(reusable_tokens(7, 8), 6);
  EXPECT_EQ(reusable_tokens(1, 1), 0);
  EXPECT_EQ(reusable_tokens(4, 0), 0);
}

}  // namespace
}  // namespace gpux::generation
