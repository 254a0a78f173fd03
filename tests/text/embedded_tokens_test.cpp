#include "text/embedded_tokens.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/refusal.h"

namespace gpux::text {
namespace {

using test::refusal;

/// 1500 tokens, and these.
Tokenizer with_added(const std::vector<std::string>& tokens) {
  std::string added;
  for (const std::string& token : tokens) {
    if (!added.empty()) added += ", ";
    added += R"({"content": ")" + token +
             R"(", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
  }
  return Tokenizer::from_file(GPUX_SOURCE_DIR "/tests/text/data/wordpiece.json",
                              R"({"added_tokens": [)" + added + "]}");
}

TEST(EmbeddedTokens, NamesTheTokenThatHasNoRow) {
  const Tokenizer tokenizer = with_added({"[QUERY]"});
  const auto refused = [&](const std::vector<std::uint32_t>& ids, std::size_t rows) {
    return refusal([&] { require_embedded(ids, rows, tokenizer); });
  };
  EXPECT_EQ(refused({2, 1500, 3}, 1500),
            "the text has the token 1500 '[QUERY]'; accepted: 0 to 1499, the tokens that the model has embeddings for");
  EXPECT_EQ(refused({9999}, 1501),
            "the text has the token 9999; accepted: 0 to 1500, the tokens that the model has embeddings for");
  EXPECT_NO_THROW(require_embedded(std::vector<std::uint32_t>{2, 1500, 3}, 1501, tokenizer));
  EXPECT_NO_THROW(require_embedded(std::vector<std::uint32_t>{9999}, 0, tokenizer)) << "the rows are not known";
}

TEST(EmbeddedTokens, ANoteNamesAtMostThree) {
  EXPECT_EQ(note_on_embedded(with_added({}), 1500), "");
  EXPECT_EQ(note_on_embedded(with_added({"[A]"}), 1501), "");
  EXPECT_EQ(note_on_embedded(with_added({"[A]"}), 0), "");
  EXPECT_EQ(note_on_embedded(with_added({"[A]", "[B]", "[C]"}), 1501),
            "the tokenizer has 1503 tokens, and the model has embeddings for the first 1501: texts with '[B]', '[C]' "
            "are refused");
  EXPECT_EQ(note_on_embedded(with_added({"[A]", "[B]", "[C]", "[D]", "[E]"}), 1500),
            "the tokenizer has 1505 tokens, and the model has embeddings for the first 1500: texts with '[A]', '[B]', "
            "'[C]' and 2 more are refused");
}

}  // namespace
}  // namespace gpux::text
