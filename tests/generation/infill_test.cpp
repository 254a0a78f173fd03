#include "generation/infill.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/token_words.h"

namespace gpux::generation {
namespace {

text::Tokenizer tokenizer_with(const std::vector<std::string>& words) {
  return text::Tokenizer::from_json(test::made_tokenizer("byte-level", words));
}

std::string prompt_text(const text::Tokenizer& tokenizer) {
  const auto format = infill_format_of(tokenizer);
  if (!format) return "none";
  std::string text;
  for (const std::uint32_t id : infill_prompt(tokenizer, *format, "ab", "cd", false)) text += *tokenizer.token(id);
  return text;
}

TEST(Infill, HasTheOrderOfTheFamily) {
  struct Line {
    std::vector<std::string> tokens;
    std::string prompt;
  };

  for (const Line& line : std::vector<Line>{
           {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>"},
           {{"<fim_middle>", "<fim_suffix>", "<fim_prefix>"}, "<fim_prefix>ab<fim_suffix>cd<fim_middle>"},
           {{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
            "<|code_suffix|>cd<|code_prefix|>ab<|code_middle|>"},
           {{"[PREFIX]", "[SUFFIX]"}, "[SUFFIX]cd[PREFIX]ab"},
           {{"<fim_prefix>", "<fim_suffix>"}, "none"},
           {{}, "none"},
       }) {
    EXPECT_EQ(prompt_text(tokenizer_with(line.tokens)), line.prompt);
  }
}

TEST(Infill, EndsWithTheTokensOfTheFamily) {
  const text::Tokenizer tokenizer =
      tokenizer_with({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|file_sep|>"});
  EXPECT_THAT(infill_format_of(tokenizer)->end_tokens,
              testing::UnorderedElementsAre(*tokenizer.id("<|fim_pad|>"), *tokenizer.id("<|file_sep|>")));
}

TEST(Infill, BeginsWithWhatTheTokenizerPutsBeforeATextAlone) {
  const text::Tokenizer tokenizer =
      text::Tokenizer::from_json(test::made_tokenizer("stripping", {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}));
  const auto format = infill_format_of(tokenizer);
  ASSERT_TRUE(format);
  const auto with = infill_prompt(tokenizer, *format, "ab", "cd"),
             without = infill_prompt(tokenizer, *format, "ab", "cd", false);
  const text::Encoding usual = tokenizer.encode("a");
  const bool begins = usual.special_tokens_mask().front() != 0;
  EXPECT_EQ(with.size(), without.size() + (begins ? 1 : 0));
  EXPECT_EQ(with.back(), without.back());
}

}  // namespace
}  // namespace gpux::generation
