#include "pipeline/answers.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gpux::pipeline {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::FieldsAre;

const std::vector<std::string> labels{"O", "B-PER", "I-PER", "I-LOC"};

// A token's logits: the label's is 4, the others' are 0.
std::vector<float> logits_of(const std::vector<std::size_t>& chosen) {
  std::vector<float> logits;
  for (const std::size_t label : chosen) {
    for (std::size_t i = 0; i < labels.size(); ++i) logits.push_back(i == label ? 4.0F : 0.0F);
  }
  return logits;
}

std::vector<std::string> found(std::string_view text, const std::vector<TokenPlace>& tokens,
                               const std::vector<std::size_t>& chosen, Aggregation aggregation) {
  std::vector<std::string> all;
  for (const Entity& entity : find_entities(text, tokens, logits_of(chosen), labels, aggregation)) {
    all.push_back(entity.label + " " + entity.text + " " + std::to_string(entity.begin) + "-" +
                  std::to_string(entity.end));
  }
  return all;
}

TEST(Entities, JoinWhatFollowsAndBeginAnew) {
  const std::string_view text = "Ana Bo Paris x";
  const std::vector<TokenPlace> tokens{{0, 0, false}, {0, 3}, {4, 6}, {7, 12}, {13, 14}, {0, 0, false}};
  EXPECT_THAT(found(text, tokens, {1, 1, 2, 3, 0, 1}, Aggregation::simple),
              ElementsAre("PER Ana Bo 0-6", "LOC Paris 7-12"));
  EXPECT_THAT(found(text, tokens, {1, 1, 1, 3, 3, 1}, Aggregation::simple),
              ElementsAre("PER Ana 0-3", "PER Bo 4-6", "LOC Paris x 7-14"));
  EXPECT_THAT(found(text, tokens, {1, 1, 2, 0, 0, 1}, Aggregation::none), ElementsAre("B-PER Ana 0-3", "I-PER Bo 4-6"));
  EXPECT_THAT(found(text, tokens, {1, 0, 0, 0, 0, 1}, Aggregation::simple), ElementsAre());
}

TEST(Entities, DecideForWholeWords) {
  const std::string_view text = "Zürich";  // tokens "Zü", "ri", "ch"
  const std::vector<TokenPlace> tokens{{0, 3}, {3, 5, true, true}, {5, 7, true, true}};
  EXPECT_THAT(found(text, tokens, {3, 0, 0}, Aggregation::first), ElementsAre("LOC Zürich 0-6"));
  EXPECT_THAT(found(text, tokens, {3, 0, 0}, Aggregation::average), ElementsAre());
  EXPECT_THAT(found(text, tokens, {3, 0, 0}, Aggregation::simple), ElementsAre("LOC Zü 0-2"));
  std::vector<float> logits = logits_of({0, 3, 0});
  logits[7] = 9;
  const auto best = find_entities(text, tokens, logits, labels, Aggregation::max);
  ASSERT_EQ(best.size(), 1U);
  EXPECT_EQ(best.front().text, "Zürich");
  EXPECT_NEAR(best.front().score, std::exp(9) / (std::exp(9) + 3), 1e-9);
}

TEST(Entities, AreWrittenWithTheKeysOfTransformers) {
  const std::vector<Entity> entities{{"PER", "Ana \"B\"", 0.5, 0, 7}};
  EXPECT_EQ(
      json::parse(to_json(entities, Aggregation::simple)),
      (json::array({{{"entity_group", "PER"}, {"score", 0.5}, {"word", "Ana \"B\""}, {"start", 0}, {"end", 7}}})));
  EXPECT_TRUE(json::parse(to_json(entities, Aggregation::none))[0].contains("entity"));
  EXPECT_EQ(to_json(std::vector<Entity>{}, Aggregation::simple), "[]");
  const std::vector<Entity> not_a_number{{"PER", "x", std::numeric_limits<double>::quiet_NaN(), 0, 1}};
  EXPECT_TRUE(json::parse(to_json(not_a_number, Aggregation::none))[0]["score"].is_null());
}

struct SpanCase {
  const char* what;
  std::vector<float> starts, ends;
  std::size_t most;
  const char* answer;
  std::size_t begin, end;
};

TEST(Answers, AreTheBestSpanOfTheText) {
  const std::string_view text = "äb cd ef";
  // [CLS] question [SEP] äb cd ef [SEP]
  const std::vector<TokenPlace> tokens{{0, 0, false}, {0, 0, false}, {0, 0, false}, {0, 3},
                                       {4, 6},        {7, 9},        {0, 0, false}};
  const std::vector<SpanCase> cases{
      {"one token", {0, 0, 0, 0, 5, 0, 0}, {0, 0, 0, 0, 5, 0, 0}, 15, "cd", 3, 5},
      {"several", {0, 0, 0, 5, 0, 0, 0}, {0, 0, 0, 0, 0, 5, 0}, 15, "äb cd ef", 0, 8},
      {"no more than asked for", {0, 0, 0, 5, 0, 0, 0}, {0, 0, 0, 0, 1, 5, 0}, 2, "äb cd", 0, 5},
      {"never of the question", {0, 9, 0, 0, 0, 1, 0}, {0, 9, 0, 0, 0, 1, 0}, 15, "ef", 6, 8},
      {"an end behind the start", {0, 0, 0, 0, 0, 5, 0}, {0, 0, 0, 5, 0, 1, 0}, 15, "ef", 6, 8},
  };
  for (const SpanCase& one : cases) {
    const Answer answer = find_answer(text, tokens, one.starts, one.ends, one.most);
    EXPECT_EQ(answer.text, one.answer) << one.what;
    EXPECT_EQ(answer.begin, one.begin) << one.what;
    EXPECT_EQ(answer.end, one.end) << one.what;
    EXPECT_GT(answer.score, 0) << one.what;
    EXPECT_LE(answer.score, 1) << one.what;
  }
}

TEST(Answers, AreWholeWords) {
  const std::vector<TokenPlace> tokens{{0, 0, false}, {0, 2}, {2, 4, true, true}, {4, 6, true, true}};
  const Answer answer =
      find_answer("abcdef", tokens, std::vector<float>{0, 0, 5, 0}, std::vector<float>{0, 0, 5, 0}, 15);
  EXPECT_EQ(answer.text, "abcdef");
}

TEST(Answers, AreEmptyWhereThereIsNoText) {
  const std::vector<TokenPlace> tokens{{0, 0, false}, {0, 0, false}};
  const Answer answer = find_answer("abc", tokens, std::vector<float>{1, 2}, std::vector<float>{1, 2}, 15);
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.score, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(find_answer("abc", {{{0, 3}}}, std::vector<float>{nan}, std::vector<float>{nan}, 15).score, 0);
}

}  // namespace
}  // namespace gpux::pipeline
