#include "generation/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

using testing::ElementsAre;

// Bytes are tokens of their own, as in byte-level BPE without merges: "é" is Ã (0xc3) and © (0xa9).
text::Tokenizer byte_tokenizer() {
  return text::Tokenizer::from_json(R"({
    "version": "1.0", "added_tokens": [{"id": 6, "content": "</s>", "special": true, "single_word": false, "lstrip": false,
    "rstrip": false, "normalized": false}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "Ã": 3, "©": 4, "Ġ": 5, "</s>": 6}, "merges": []}})");
}

// As SentencePiece's: words begin with a mark of the space, and letters without a token are tokens of bytes.
text::Tokenizer sentence_piece_tokenizer() {
  return text::Tokenizer::from_json(R"({
    "version": "1.0", "added_tokens": [{"id": 1, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
    "rstrip": false, "normalized": false}],
    "normalizer": {"type": "Prepend", "prepend": "▁"}, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "vocab": {"<unk>": 0, "<s>": 1, "▁a": 2, "b": 3,
    "<0x2A>": 4, "<0x88>": 5, "<0xC3>": 6, "<0xA9>": 7}, "merges": []}})");
}

std::vector<std::string> sentence_pieces_of(const std::vector<std::uint32_t>& prompt,
                                            const std::vector<std::uint32_t>& tokens) {
  TextStream stream(sentence_piece_tokenizer(), {});
  stream.continue_text(prompt);
  std::vector<std::string> pieces;
  for (const std::uint32_t token : tokens) pieces.push_back(stream.add(token));
  pieces.push_back(stream.finish());
  return pieces;
}

std::vector<std::string> pieces_of(const std::vector<std::uint32_t>& tokens, std::vector<std::string> stops,
                                   bool* is_stopped = nullptr) {
  TextStream stream(byte_tokenizer(), std::move(stops));
  std::vector<std::string> pieces;
  for (const std::uint32_t token : tokens) pieces.push_back(stream.add(token));
  pieces.push_back(stream.finish());
  if (is_stopped != nullptr) *is_stopped = stream.is_stopped();
  return pieces;
}

TEST(TextStream, GivesWholeCharacters) {
  EXPECT_THAT(pieces_of({0, 3, 4, 1}, {}), ElementsAre("a", "", "é", "b", ""));
}

TEST(TextStream, GivesAnIncompleteCharacterAtTheEnd) {
  EXPECT_THAT(pieces_of({0, 3}, {}), ElementsAre("a", "", "\xef\xbf\xbd"));
}

TEST(TextStream, KeepsTheSpaceBetweenAPromptAndItsContinuation) {
  EXPECT_THAT(sentence_pieces_of({1, 2}, {2, 3}), ElementsAre(" a", "b", ""));
  EXPECT_THAT(sentence_pieces_of({1}, {2, 3}), ElementsAre("a", "b", ""));
  EXPECT_THAT(sentence_pieces_of({}, {2, 3}), ElementsAre("a", "b", ""));
  // The fourth last token is in the middle of a character.
  EXPECT_THAT(sentence_pieces_of({2, 6, 7, 6, 7, 3}, {2}), ElementsAre(" a", ""));
  EXPECT_THAT(sentence_pieces_of({2, 6, 7, 6, 7}, {6, 7}), ElementsAre("", "é", ""));
}

TEST(TextStream, GivesWholeCharactersWhereAByteMakesARunOfBytesInvalid) {
  EXPECT_THAT(sentence_pieces_of({}, {4, 5, 3}), ElementsAre("*", "",
                                                             "\xef\xbf\xbd"
                                                             "b",
                                                             ""));
  EXPECT_THAT(sentence_pieces_of({}, {4, 5}), ElementsAre("*", "", "\xef\xbf\xbd"));
  EXPECT_THAT(sentence_pieces_of({}, {4, 6, 7, 3}), ElementsAre("*", "", "é", "b", ""));
}

TEST(TextStream, DoesNotWaitForEverForACharacter) {
  TextStream stream(byte_tokenizer(), {});
  std::string text;
  for (int i = 0; i < 200; ++i) text += stream.add(3);  // the first byte of two, again and again
  EXPECT_FALSE(text.empty());
}

TEST(TextStream, LeavesSpecialTokensOut) {
  EXPECT_THAT(pieces_of({0, 6, 1}, {}), ElementsAre("a", "", "b", ""));
}

TEST(TextStream, GivesNothingForTokensThatTheTokenizerDoesNotHave) {
  EXPECT_THAT(pieces_of({0, 99, 3, 7, 4, 1}, {}), ElementsAre("a", "", "", "", "é", "b", ""));
}

TEST(TextStream, ShowsSpecialTokensOnRequest) {
  TextStream stream(byte_tokenizer(), {}, true);
  EXPECT_EQ(stream.add(0) + stream.add(6) + stream.finish(), "a</s>");
}

TEST(TextStream, ShowsTheSpecialTokensThatItIsGiven) {
  TextStream shown(byte_tokenizer(), {}, false, {6});
  EXPECT_EQ(shown.add(0) + shown.add(6) + shown.add(1) + shown.finish(), "a</s>b");
  TextStream other(byte_tokenizer(), {}, false, {1});  // no special token
  EXPECT_EQ(other.add(0) + other.add(6) + other.add(1) + other.finish(), "ab");
}

TEST(TextStream, HoldsBackWhatMayBecomeAStop) {
  bool is_stopped = false;
  EXPECT_THAT(pieces_of({0, 1, 2, 0}, {"bca"}, &is_stopped), ElementsAre("a", "", "", "", ""));
  EXPECT_TRUE(is_stopped);
  EXPECT_THAT(pieces_of({0, 1, 2, 2}, {"bca"}, &is_stopped), ElementsAre("a", "", "", "bcc", ""));
  EXPECT_FALSE(is_stopped);
  // It was the beginning of a stop that did not come.
  EXPECT_THAT(pieces_of({0, 1, 2}, {"bca"}, &is_stopped), ElementsAre("a", "", "", "bc"));
  EXPECT_FALSE(is_stopped);
}

TEST(TextStream, EndsAtTheFirstOfSeveralStops) {
  EXPECT_THAT(pieces_of({0, 1, 2, 0}, {"c", "bc"}), ElementsAre("a", "", "", "", ""));
  EXPECT_THAT(pieces_of({1, 1, 2}, {"bc"}), ElementsAre("", "b", "", ""));
}

TEST(TextStream, GivesNothingBehindAStop) {
  TextStream stream(byte_tokenizer(), {"b"});
  EXPECT_EQ(stream.add(0), "a");
  EXPECT_EQ(stream.add(1), "");
  EXPECT_TRUE(stream.is_stopped());
  EXPECT_EQ(stream.add(0), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, PassesOverStopsThatMayNotEndIt) {
  TextStream stream(byte_tokenizer(), {"b"});
  EXPECT_EQ(stream.add(1, false), "b");
  EXPECT_FALSE(stream.is_stopped());
  EXPECT_EQ(stream.add(1), "");
  EXPECT_TRUE(stream.is_stopped());
}

TEST(HeldBack, IsTheLongestBeginningOfAStopAtTheEnd) {
  const std::vector<std::string> stops{"abab", "c"};
  EXPECT_EQ(held_back("xaba", stops), 3);
  EXPECT_EQ(held_back("xab", stops), 2);
  EXPECT_EQ(held_back("xb", stops), 0);
  EXPECT_EQ(held_back("", stops), 0);
}

}  // namespace
}  // namespace gpux::generation
