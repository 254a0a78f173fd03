#include "generation/draft_vocabulary.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "text/token_words.h"

namespace gpux::generation {
namespace {

using nlohmann::json;
using testing::HasSubstr;

text::Tokenizer tokenizer(const std::function<void(json&)>& change = {}) {
  json made = json::parse(test::made_tokenizer("byte-level", {"one", "two"}));
  if (change) change(made);
  return text::Tokenizer::from_json(made.dump());
}

std::string difference(const text::Tokenizer& model, const text::Tokenizer& draft) {
  return token_difference(model, draft).value_or("");
}

// How texts are cut into tokens is not compared: the draft model is given tokens.
TEST(TokenDifference, IsNoneOfTheSameTokens) {
  EXPECT_EQ(token_difference(tokenizer(), tokenizer()), std::nullopt);
  EXPECT_EQ(token_difference(tokenizer(), tokenizer([](json& made) {
                               made["normalizer"] = {{"type", "NFC"}};
                             })),
            std::nullopt);
}

TEST(TokenDifference, IsTheFirstOne) {
  const text::Tokenizer model = tokenizer();
  const auto respelled = tokenizer([](json& made) {
    json& words = made["model"]["vocab"];
    words["three"] = words["two"];
    words.erase("two");
  });
  EXPECT_THAT(difference(model, respelled), HasSubstr("is 'two' in the model and 'three' in the draft model"));
  const auto longer = tokenizer([](json& made) {
    json& words = made["model"]["vocab"];
    words["more"] = words.size();
  });
  EXPECT_THAT(difference(model, longer), HasSubstr("is missing in the model and 'more' in the draft model"));
  EXPECT_THAT(difference(longer, model), HasSubstr("is 'more' in the model and missing in the draft model"));
  const auto plain = tokenizer([](json& made) { made["added_tokens"][1]["special"] = false; });
  EXPECT_THAT(difference(model, plain), HasSubstr("is special in the model alone"));
  EXPECT_THAT(difference(plain, model), HasSubstr("is special in the draft model alone"));
}

// Numbers may be left out.
TEST(TokenDifference, IsFoundBehindAGap) {
  const auto with_one_at = [](const char* text, std::size_t number) {
    return tokenizer([&](json& made) { made["model"]["vocab"][text] = number; });
  };
  EXPECT_EQ(difference(with_one_at("far", 5000), with_one_at("far", 5000)), "");
  EXPECT_THAT(difference(with_one_at("far", 5000), with_one_at("away", 5000)), HasSubstr("token 5000 is 'far'"));
}

TEST(TokenDifference, IsNamedWhereADraftModelIsRefused) {
  try {
    require_same_tokens(tokenizer(), tokenizer([](json& made) { made["model"]["vocab"]["more"] = 4000; }), "small");
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), HasSubstr("draft is 'small', which has other tokens: token 4000 is missing"));
  }
}

}  // namespace
}  // namespace gpux::generation
