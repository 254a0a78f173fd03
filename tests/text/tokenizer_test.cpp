#include "text/tokenizer.h"

#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/refusal.h"
#include "gpux/error.h"

namespace gpux::text {
namespace {

using nlohmann::json;
using test::refusal;
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

TEST(Tokenizer, TakesTheChangesOfTheFilesBesideIt) {
  const auto ids = [](const char* file, const char* changes, std::string_view text) {
    const Tokenizer tokenizer = Tokenizer::from_file(data(file), changes);
    const Encoding encoding = tokenizer.encode(text, {.special_tokens = false});
    return std::vector<std::uint32_t>(encoding.ids().begin(), encoding.ids().end());
  };
  const auto plain = [&](const char* file, std::string_view text) { return ids(file, "", text); };
  const std::vector<std::uint32_t> the_cat = plain("wordpiece.json", "the cat");
  EXPECT_EQ(plain("wordpiece.json", "The CAT"), the_cat);

  const char* cased =
      R"({"bert_normalizer": {"lowercase": false, "strip_accents": null, "handle_chinese_chars": true}})";
  EXPECT_NE(ids("wordpiece.json", cased, "The CAT"), the_cat);
  EXPECT_EQ(ids("wordpiece.json", cased, "the cat"), the_cat);
  const char* accented =
      R"({"bert_normalizer": {"lowercase": true, "strip_accents": false, "handle_chinese_chars": true}})";
  EXPECT_EQ(plain("wordpiece.json", "caf\u00e9"), plain("wordpiece.json", "cafe"));
  EXPECT_NE(ids("wordpiece.json", accented, "caf\u00e9"), plain("wordpiece.json", "cafe"));

  EXPECT_NE(plain("bpe.json", "The CAT"), plain("bpe.json", "the cat"));
  EXPECT_EQ(ids("bpe.json", R"({"lowercase": true})", "The CAT"), plain("bpe.json", "the cat"));
  EXPECT_EQ(ids("bpe.json", R"({"add_prefix_space": true})", "cat"), plain("bpe.json", " cat"));
  EXPECT_NE(plain("bpe.json", "cat"), plain("bpe.json", " cat"));

  // A token that is new has the next id, and one of the vocabulary its own.
  const char* added = R"({"added_tokens": [{"content": "unheard of", "single_word": false, "lstrip": false,
                                            "rstrip": false, "normalized": false, "special": false}]})";
  EXPECT_THAT(ids("wordpiece.json", added, "unheard of"), ElementsAre(1500U));
  EXPECT_GT(plain("wordpiece.json", "unheard of").size(), 1U);
  const std::uint32_t the = plain("wordpiece.json", "the").front();
  EXPECT_GT(plain("wordpiece.json", "xthex").size(), 0U);
  const char* special = R"({"special_tokens": ["the", "a token that is not in the vocabulary"]})";
  EXPECT_THAT(ids("wordpiece.json", special, "xthex"), testing::Contains(the));
  EXPECT_EQ(Tokenizer::from_file(data("wordpiece.json"), special).vocabulary_size(), 1500U);
  EXPECT_EQ(Tokenizer::from_file(data("wordpiece.json"), special).decode(the_cat),
            Tokenizer::from_file(data("wordpiece.json")).decode(plain("wordpiece.json", "cat")));
  EXPECT_THAT(plain("wordpiece.json", "[MASK]"), ElementsAre(4U));
  EXPECT_GT(ids("wordpiece.json", R"({"split_special_tokens": true})", "[MASK]").size(), 1U);

  // One after the other as in one: a text is not cut within a token that has a blank.
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "unheard of ";
  const Tokenizer with_blank = Tokenizer::from_file(data("wordpiece.json"), added);
  const Encoding cut = with_blank.encode(text, {.max_tokens = 100});
  EXPECT_EQ(std::ranges::count(cut.ids(), 1500U), 98);
}

TEST(Tokenizer, RefusesChangesThatDoNotGoWithIt) {
  const auto refused = [](const char* file, const char* changes) {
    try {
      (void)Tokenizer::from_file(data(file), changes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused("bpe.json", R"({"required_lowercase": true})"),
              HasSubstr("do_lower_case of tokenizer_config.json is true, and the normalizer of tokenizer.json does not "
                        "lower-case texts; "
                        "accepted: false"));
  EXPECT_EQ(Tokenizer::from_file(data("bpe.json"), R"({"required_lowercase": false})").vocabulary_size(),
            Tokenizer::from_file(data("bpe.json")).vocabulary_size());
  EXPECT_THAT(refused("bpe.json", R"({"other": 1})"), HasSubstr("unknown field `other`"));
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
  EXPECT_NE(Tokenizer::from_file(data("wordpiece.json"), R"({"split_special_tokens": true})"), *opened.front());
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

// Words, numbers, marks, accents that combine, scripts without spaces, runs of blanks and odd ones: about `bytes`.
std::string mixed_text(std::size_t bytes, std::uint32_t seed) {
  static const std::vector<std::string> pieces{
      "the ",        "tokenizer ", "reads ",  "x",        "1234 ",          "3.14, ",        "don't ",
      "  ",          "\n\n",       "\t ",     "e\u0301 ", "\u00e9t\u00e9 ", "\u4f60\u597d ", "\u3053\u3093 ",
      "\U0001f600 ", "-- ",        "\u00a0 ", "</s> ",    "a b ",           " \u0301c "};
  std::string text;
  while (text.size() < bytes) {
    seed = seed * 1664525U + 1013904223U;
    text += pieces[(seed >> 16U) % pieces.size()];
  }
  return text;
}

TEST(Tokenizer, LongTextsGiveTheTokensOfTheWholeText) {
  for (const char* name : {"wordpiece.json", "bpe.json", "unigram.json"}) {
    const Tokenizer tokenizer = Tokenizer::from_file(data(name));
    for (std::uint32_t seed = 1; seed <= 8; ++seed) {
      const std::string text = mixed_text(30'000 + 997 * seed, seed);
      SCOPED_TRACE(name + std::string(" ") + std::to_string(seed));
      const Encoding whole = tokenizer.encode(text, {.special_tokens = false});
      const Encoding whole_places = tokenizer.encode(text, {.special_tokens = false, .offsets = Offsets::bytes});
      for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{100}, std::size_t{700}}) {
        // Without a bound the whole text would have to be read.
        const EncodeOptions right{.max_tokens = count, .special_tokens = false, .max_bytes = 24'000};
        const Encoding first = tokenizer.encode(text, right);
        EXPECT_TRUE(std::ranges::equal(first.ids(), whole.ids().first(count)));
        EncodeOptions left = right;
        left.truncate_left = true;
        EXPECT_TRUE(std::ranges::equal(tokenizer.encode(text, left).ids(), whole.ids().last(count)));
        EncodeOptions places = right;
        places.offsets = Offsets::bytes;
        EXPECT_TRUE(
            std::ranges::equal(tokenizer.encode(text, places).offsets(), whole_places.offsets().first(2 * count)));
      }
    }
  }
}

TEST(Tokenizer, RefusesToReadMoreOfATextThanItMay) {
  const Tokenizer tokenizer = Tokenizer::from_file(data("wordpiece.json"));
  const auto refusal = [&](const std::string& text, const EncodeOptions& options) -> std::string {
    try {
      (void)tokenizer.encode(text, options);
      return "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      return error.message();
    }
  };
  const std::string words = mixed_text(100'000, 1);
  EXPECT_EQ(refusal(words, {.max_tokens = 16, .max_bytes = 20'000}), "taken");
  EXPECT_THAT(refusal(words, {.max_bytes = 20'000}), HasSubstr("bytes; accepted: at most 20000"));
  EXPECT_THAT(refusal(std::string(100'000, 'a'), {.max_tokens = 16, .max_bytes = 20'000}),
              HasSubstr("100000 bytes, and 20000 of them do not settle its 16 tokens"));
  EXPECT_EQ(refusal(std::string(20'000, ' '), {.max_tokens = 16, .max_bytes = 20'000}), "taken");
  EXPECT_THAT(refusal(std::string(20'001, ' '), {.max_tokens = 16, .max_bytes = 20'000}), HasSubstr("20001 bytes"));
}

TEST(Tokenizer, AFirstTextIsTokenizedOnceForManyPairs) {
  for (const char* name : {"wordpiece.json", "bpe.json", "unigram.json"}) {
    const Tokenizer tokenizer = Tokenizer::from_file(data(name));
    for (const auto truncation :
         {PairTruncation::longest_first, PairTruncation::first_only, PairTruncation::second_only}) {
      for (const std::size_t first_bytes : {3U, 40U, 60'000U}) {
        const EncodeOptions options{.max_tokens = 32, .truncation = truncation};
        const std::string text = mixed_text(first_bytes, 3);
        const EncodedText first = tokenizer.encode_first(text, options);
        for (const std::size_t bytes : {3U, 50U, 5'000U}) {
          SCOPED_TRACE(testing::Message() << name << " " << first_bytes << " " << bytes);
          const std::string pair = mixed_text(bytes, 5);
          std::optional<Encoding> expected;
          try {
            expected = tokenizer.encode(text, pair, options);
          } catch (const Error& error) {
            EXPECT_THROW((void)tokenizer.encode(first, pair, options), Error);
            continue;
          }
          const Encoding met = tokenizer.encode(first, pair, options);
          EXPECT_TRUE(std::ranges::equal(met.ids(), expected->ids()));
          EXPECT_TRUE(std::ranges::equal(met.type_ids(), expected->type_ids()));
          EXPECT_TRUE(std::ranges::equal(met.sequence_ids(), expected->sequence_ids()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace gpux::text
