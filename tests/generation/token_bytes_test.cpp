#include "generation/token_bytes.h"

#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

TEST(TokenBytes, OfByteLevelVocabularies) {
  const auto bytes = [](std::string_view token) { return token_bytes(token, TokenSpelling::byte_level); };
  EXPECT_EQ(bytes("abc"), "abc");
  EXPECT_EQ(bytes("\u0120the"), " the");
  EXPECT_EQ(bytes("\u010a"), "\n");
  EXPECT_EQ(bytes("\u00c3\u00a9"), "\xc3\xa9");
  EXPECT_EQ(bytes("\u00c3"), "\xc3") << "a part of a character";
  EXPECT_EQ(bytes("\u0143"), "\xad") << "the last of the letters";
  EXPECT_EQ(bytes("<|im_end|>"), "<|im_end|>");
  EXPECT_EQ(bytes("\u4f60"), "\u4f60") << "added as a text";
}

TEST(TokenBytes, OfSentencePieceVocabularies) {
  const auto bytes = [](std::string_view token) { return token_bytes(token, TokenSpelling::sentence_piece); };
  EXPECT_EQ(bytes("\u2581the"), " the");
  EXPECT_EQ(bytes("\u2581\u2581"), "  ");
  EXPECT_EQ(bytes("<0x0A>"), "\n");
  EXPECT_EQ(bytes("<0xE4>"), "\xe4");
  EXPECT_EQ(bytes("<0xZZ>"), "<0xZZ>");
  EXPECT_EQ(bytes("</s>"), "</s>");
}

}  // namespace
}  // namespace gpux::generation
