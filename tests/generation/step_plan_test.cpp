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

void PrintTo(const Admission& admission, std::ostream* out) {
  *out << "next " << admission.next << ", yielding ";
  if (admission.yielding) {
    *out << *admission.yielding;
  } else {
    *out << "none";
  }
}

namespace {

constexpr std::size_t chunk = 8;
constexpr Step none{}, decode{Step::Kind::decode, 0};

Step prompt(std::size_t tokens) {
  return {Step::Kind::prompt, tokens};
}

Step planned(std::size_t decoding, std::size_t prompt_tokens, std::size_t in_turn = 0) {
  return plan_step({.decoding = decoding, .prompt_tokens = prompt_tokens, .prompt_tokens_in_turn = in_turn}, chunk);
}

TEST(StepPlan, TakesTurns) {
  EXPECT_EQ(planned(0, 0), none);
  EXPECT_EQ(planned(3, 0), decode);
  EXPECT_EQ(planned(0, 20), prompt(8));
  EXPECT_EQ(planned(0, 6), prompt(6));
  EXPECT_EQ(planned(3, 20), prompt(8));
  EXPECT_EQ(planned(3, 12, 8), decode);
}

TEST(StepPlan, ShortPromptsShareATurn) {
  EXPECT_EQ(planned(3, 2), prompt(2));
  EXPECT_EQ(planned(3, 4, 2), prompt(4));
  EXPECT_EQ(planned(3, 20, 6), decode);
  EXPECT_EQ(planned(0, 20, 6), prompt(8)) << "nobody waits for it";
}

using Admitted = std::optional<Admission>;

struct AdmissionRow {
  const char* what;
  std::vector<Claim> claims;  // client, request, running, waiting
  Admitted admission;
};

TEST(Admissions, ShareSlotsByClientAndByRequest) {
  for (const AdmissionRow& row : std::vector<AdmissionRow>{
           {"nobody is there", {}, {}},
           {"nobody waits", {{"a", 1, 3, 0}}, {}},
           {"one alone keeps what it has", {{"a", 1, 16, 112}}, Admission{0, {}}},
           {"the first of those that have nothing", {{"a", 1, 0, 1}, {"b", 1, 0, 1}}, Admission{0, {}}},
           {"another client goes before one that has slots", {{"a", 1, 2, 9}, {"b", 1, 0, 1}}, Admission{1, 0}},
           {"a request of the same client as well", {{"a", 1, 16, 112}, {"a", 2, 0, 1}}, Admission{1, 0}},
           {"who has one slot keeps it", {{"b", 1, 0, 1}, {"a", 1, 1, 0}}, Admission{0, {}}},
           {"one more is fair enough", {{"b", 1, 7, 1}, {"a", 1, 8, 0}}, Admission{0, {}}},
           {"two more is not", {{"b", 1, 7, 1}, {"a", 1, 9, 0}}, Admission{0, 1}},
           {"requests with equal numbers are of their clients", {{"a", 1, 4, 4}, {"b", 1, 2, 4}}, Admission{1, 0}},
           {"many requests of a client count together",
            {{"a", 1, 1, 5}, {"a", 2, 1, 5}, {"a", 3, 1, 5}, {"b", 1, 1, 1}},
            Admission{3, 2}},
           {"of equals the youngest yields, so that the oldest text comes to its end",
            {{"b", 1, 0, 1}, {"a", 1, 1, 0}, {"a", 2, 1, 0}},
            Admission{0, 2}},
           {"the richest request of the richest client yields",
            {{"b", 1, 0, 1}, {"a", 1, 1, 0}, {"a", 2, 3, 0}, {"c", 1, 2, 0}},
            Admission{0, 2}},
           {"other clients yield before requests of the same",
            {{"a", 2, 0, 1}, {"a", 1, 2, 0}, {"b", 1, 6, 0}},
            Admission{0, 2}},
       }) {
    EXPECT_EQ(plan_admission(row.claims), row.admission) << row.what;
  }
}

// However they come, nobody waits while somebody has two slots more.
TEST(Admissions, EndWithEqualShares) {
  constexpr std::size_t slots = 16;
  std::vector<Claim> claims{{"a", 1, slots, 112}, {"b", 1, 0, 40}, {"b", 2, 0, 40}};
  std::size_t moved = 0;
  for (;; ++moved) {
    ASSERT_LT(moved, slots) << "slots move for ever";
    const Admitted admission = plan_admission(claims);
    ASSERT_TRUE(admission.has_value());
    if (!admission->yielding) break;
    --claims[*admission->yielding].running;
    ++claims[*admission->yielding].waiting;
    ++claims[admission->next].running;
    --claims[admission->next].waiting;
  }
  EXPECT_EQ(claims[0].running, 8);
  EXPECT_EQ(claims[1].running, 4);
  EXPECT_EQ(claims[2].running, 4);
}

TEST(Preemptions, AreOfTheYoungestTextOfWhoHasTheMost) {
  struct Row {
    std::vector<RunningText> texts;  // client, request; the oldest first
    std::size_t preempted;
  };

  for (const Row& row : std::vector<Row>{
           {{{"a", 1}}, 0},
           {{{"a", 1}, {"a", 1}, {"a", 1}}, 2},
           {{{"a", 1}, {"a", 1}, {"a", 1}, {"b", 1}}, 2},
           {{{"b", 1}, {"a", 1}, {"a", 1}, {"a", 2}}, 2},
           {{{"a", 1}, {"b", 1}, {"c", 1}}, 2},
           {{{"a", 1}, {"a", 2}, {"b", 1}}, 1},
       }) {
    EXPECT_EQ(plan_preemption(row.texts), row.preempted) << testing::PrintToString(row.texts.size());
  }
}

TEST(PromptTurns, GoRoundByClientAndRequest) {
  struct Row {
    std::vector<PendingPrompt> prompts;  // client, request, last turn
    std::size_t next;
  };

  for (const Row& row : std::vector<Row>{
           {{{"a", 1, 5}}, 0},
           {{{"a", 1, 5}, {"a", 1, 3}}, 1},
           {{{"a", 1, 1}, {"a", 1, 2}, {"a", 1, 7}, {"a", 2, 6}}, 3},
           {{{"a", 1, 1}, {"a", 2, 7}, {"b", 1, 6}}, 2},
           {{{"a", 1, 4}, {"b", 1, 4}}, 0},
       }) {
    EXPECT_EQ(next_prompt(row.prompts), row.next);
  }
}

// A prompt among 15 of another request runs in the next turn but one, and not behind all of them.
TEST(PromptTurns, DoNotDependOnHowManyPromptsARequestHas) {
  std::vector<PendingPrompt> prompts(15, {"a", 1, 0});
  std::uint64_t turn = 0;
  for (int i = 0; i < 40; ++i) prompts[next_prompt(prompts)].last_turn = ++turn;
  prompts.push_back({"a", 2, turn});
  std::size_t turns = 0;
  for (; next_prompt(prompts) != 15; ++turns) prompts[next_prompt(prompts)].last_turn = ++turn;
  EXPECT_LE(turns, 1);
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
