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
    const std::vector<Answer> answers = find_answers(text, tokens, one.starts, one.ends, one.most, 1);
    ASSERT_EQ(answers.size(), 1U) << one.what;
    const Answer& answer = answers.front();
    EXPECT_EQ(answer.text, one.answer) << one.what;
    EXPECT_EQ(answer.begin, one.begin) << one.what;
    EXPECT_EQ(answer.end, one.end) << one.what;
    EXPECT_GT(answer.score, 0) << one.what;
    EXPECT_LE(answer.score, 1) << one.what;
  }
}

TEST(Answers, AreWholeWords) {
  const std::vector<TokenPlace> tokens{{0, 0, false}, {0, 2}, {2, 4, true, true}, {4, 6, true, true}};
  const auto answers =
      find_answers("abcdef", tokens, std::vector<float>{0, 0, 5, 0}, std::vector<float>{0, 0, 5, 0}, 15, 3);
  ASSERT_EQ(answers.size(), 3U);
  for (const Answer& answer : answers) EXPECT_EQ(answer.text, "abcdef");
  EXPECT_GT(best_of(answers).score, answers.front().score) << "what reads the same counts together";
}

TEST(Answers, CountTogetherWhereTheyReadTheSame) {
  const std::vector<Answer> answers{{"Fox", 0.3, 0, 3}, {"dog", 0.4, 5, 8}, {"fox", 0.2, 9, 12}};
  const Answer best = best_of(answers);
  EXPECT_EQ(best.text, "Fox");
  EXPECT_DOUBLE_EQ(best.score, 0.5);
  EXPECT_EQ(best.begin, 0U);
  EXPECT_EQ(best_of({}).text, "");
  EXPECT_EQ(best_of({}).score, 0);
}

TEST(Answers, AreNotThereWithoutText) {
  const std::vector<TokenPlace> tokens{{0, 0, false}, {0, 0, false}};
  EXPECT_TRUE(find_answers("abc", tokens, std::vector<float>{1, 2}, std::vector<float>{1, 2}, 15, 9).empty());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<TokenPlace> one{{0, 3}};
  EXPECT_TRUE(find_answers("abc", one, std::vector<float>{nan}, std::vector<float>{nan}, 15, 9).empty());
}

}  // namespace
}  // namespace gpux::pipeline
