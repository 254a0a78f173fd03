#include "text/tokenizer.h"

#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(GPUX_SOURCE_DIR) / "tests/text/data" / name;
}

EncodeOptions options_of(const json& wanted) {
  EncodeOptions options;
  options.max_tokens = wanted.value("max_tokens", std::size_t{0});
  options.special_tokens = wanted.value("special", true);
  options.truncate_left = wanted.value("left", false);
  options.offsets = Offsets::characters;
  const std::string strategy = wanted.value("strategy", "longest_first");
  if (strategy == "only_first") options.truncation = PairTruncation::first_only;
  if (strategy == "only_second") options.truncation = PairTruncation::second_only;
  return options;
}

Encoding encode(const Tokenizer& tokenizer, const json& wanted) {
  const std::string text = wanted.at("text");
  if (!wanted.contains("pair")) return tokenizer.encode(text, options_of(wanted));
  return tokenizer.encode(text, wanted["pair"].get<std::string>(), options_of(wanted));
}

class References : public testing::TestWithParam<const char*> {};

TEST_P(References, EqualThePythonPackage) {
  const Tokenizer tokenizer = Tokenizer::from_file(data(std::string(GetParam()) + ".json"));
  std::istringstream lines(read_file(data(std::string(GetParam()) + "_answers.jsonl")));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json sample = json::parse(line);
    const json& answer = sample["answer"];
    SCOPED_TRACE(sample["wanted"].dump());
    if (answer.is_null()) {
      EXPECT_THROW((void)encode(tokenizer, sample["wanted"]), Error);
      continue;
    }
    const Encoding encoding = encode(tokenizer, sample["wanted"]);
    EXPECT_EQ(json(encoding.ids()), answer["ids"]);
    EXPECT_EQ(json(encoding.type_ids()), answer["type_ids"]);
    EXPECT_EQ(json(encoding.special_tokens_mask()), answer["special"]);
    EXPECT_EQ(json(encoding.offsets()), answer["offsets"]);
    EXPECT_EQ(tokenizer.decode(encoding.ids()), answer["decoded"].get<std::string>());
  }
  EXPECT_EQ(count, 150U);
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, References, testing::Values("wordpiece", "bpe", "unigram"));

TEST(Tokenizer, OwnTruncationAndPaddingOfTheFileDoNotCount) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("wordpiece.json"));
  EXPECT_EQ(tokenizer.encode("a b c d e f g h i j k l").size(), 14U);
  EXPECT_EQ(tokenizer.encode("a").size(), 3U);
}

TEST(Tokenizer, CutsAtEitherEnd) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("wordpiece.json"));
  EXPECT_EQ(tokenizer.added_tokens(false), 2U);
  EXPECT_EQ(tokenizer.added_tokens(true), 3U);
  const Encoding right = tokenizer.encode("a b c d e", {.max_tokens = 4});
  EXPECT_EQ(right.size(), 4U);
  EXPECT_EQ(tokenizer.decode(right.ids()), "a b");
  const Encoding left = tokenizer.encode("a b c d e", {.max_tokens = 4, .truncate_left = true});
  EXPECT_EQ(tokenizer.decode(left.ids()), "d e");
  const Encoding pair = tokenizer.encode("a b", "c", EncodeOptions{});
  EXPECT_THAT(pair.sequence_ids(), ElementsAre(UINT32_MAX, 0, 0, UINT32_MAX, 1, UINT32_MAX));
  EXPECT_THAT(pair.type_ids(), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_TRUE(pair.offsets().empty());
}

TEST(Tokenizer, OffsetsInBytesAndInCharacters) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("wordpiece.json"));
  const std::string text = "\xc3\xa9 a";
  const Encoding bytes = tokenizer.encode(text, {.special_tokens = false, .offsets = Offsets::bytes});
  EXPECT_THAT(bytes.offsets(), ElementsAre(0, 2, 3, 4));
  const Encoding characters = tokenizer.encode(text, {.special_tokens = false, .offsets = Offsets::characters});
  EXPECT_THAT(characters.offsets(), ElementsAre(0, 1, 2, 3));
}

TEST(Tokenizer, TokensAndIds) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("wordpiece.json"));
  EXPECT_EQ(tokenizer.vocabulary_size(), 1500U);
  EXPECT_EQ(tokenizer.id("[CLS]"), 2U);
  EXPECT_EQ(tokenizer.token(2), "[CLS]");
  EXPECT_EQ(tokenizer.id("there is no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.token(1'000'000), std::nullopt);
  EXPECT_EQ(tokenizer.id("\xff"), std::nullopt);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
    return error.message();
  }
  return "nothing was refused";
}

TEST(Tokenizer, RefusesIdsThatTheVocabularyLacks) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("wordpiece.json"));
  for (const bool skip_special_tokens : {true, false}) {
    EXPECT_EQ(refusal([&] {
                (void)tokenizer.decode(std::vector<std::uint32_t>{2, 1500}, skip_special_tokens);
              }),
              "token id 1500 at index 1 is not in the vocabulary; accepted: ids of its 1500 tokens");
  }
  EXPECT_NO_THROW((void)tokenizer.decode(std::vector<std::uint32_t>{0, 1499}));
}

TEST(Tokenizer, RefusesBytesThatAreNotUtf8) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("bpe.json"));
  EXPECT_EQ(refusal([&] { (void)tokenizer.encode("na\xefve"); }), "not UTF-8 at byte offset 2 (0xef); accepted: UTF-8");
  EXPECT_EQ(refusal([&] {
              (void)tokenizer.encode("a",
                                     "\xff\xfe"
                                     "a",
                                     {});
            }),
            "UTF-16 (little-endian) by its byte order mark; accepted: UTF-8");
  EXPECT_EQ(tokenizer.encode(std::string_view("\0a", 2)).size(), 4U);
}

TEST(Tokenizer, RefusesWhatIsNone) {
  for (const char* wrong : {"", "{}", "[]", "{\"model\": {\"type\": \"WordPiece\"}}", "{\"version\": 1}", "\xff"}) {
    try {
      (void)Tokenizer::from_json(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      EXPECT_NE(error.message(), "");
    }
  }
  try {
    (void)Tokenizer::from_file(data("wordpiece_answers.jsonl"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr("wordpiece_answers.jsonl"));
  }
  EXPECT_THROW((void)Tokenizer::from_file(data("none.json")), Error);
  const Tokenizer tokenizer = Tokenizer::from_file(data("wordpiece.json"));
  EXPECT_THROW((void)tokenizer.encode("a", {.max_tokens = 1}), Error);
}

TEST(Tokenizer, IsThereOnceForAllWhoOpenIt) {
  std::vector<std::thread> threads;
  std::vector<std::optional<Tokenizer>> opened(8);
  for (auto& place : opened) {
    threads.emplace_back([&place] { place = Tokenizer::from_file(data("wordpiece.json")); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : opened) EXPECT_EQ(one, opened.front());
  EXPECT_NE(Tokenizer::from_file(data("bpe.json")), *opened.front());
  // It goes with the last of them, and comes back.
  const std::size_t size = opened.front()->vocabulary_size();
  opened.clear();
  EXPECT_EQ(Tokenizer::from_file(data("wordpiece.json")).vocabulary_size(), size);
}

TEST(Tokenizer, ServesManyThreads) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("unigram.json"));
  const Encoding first = tokenizer.encode("one text for all of them");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        EXPECT_TRUE(std::ranges::equal(tokenizer.encode("one text for all of them").ids(), first.ids()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gpux::text
