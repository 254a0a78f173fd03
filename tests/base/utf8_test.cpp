#include "base/utf8.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux {
namespace {

using namespace std::string_literals;

TEST(Utf8, ProblemsNameTheEncodingOrTheByte) {
  struct {
    std::string text;
    std::uint64_t offset;
    const char* expected;
  } const cases[]{
      {"", 0, ""},
      {"na\u00efve \U0001F600", 0, ""},
      {"\ufefftext", 0, ""},
      {"na\xefve", 0, "not UTF-8 at byte offset 2 (0xef); accepted: UTF-8"},
      {"na\xefve", 1000, "not UTF-8 at byte offset 1002 (0xef); accepted: UTF-8"},
      {"caf\xc3", 0, "not UTF-8 at byte offset 3 (0xc3); accepted: UTF-8"},
      {"\xff\xfeh\0i\0"s, 0, "UTF-16 (little-endian) by its byte order mark; accepted: UTF-8"},
      {"\xfe\xff\0h\0i"s, 0, "UTF-16 (big-endian) by its byte order mark; accepted: UTF-8"},
      {"\xff\xfe\0\0h\0\0\0"s, 0, "UTF-32 (little-endian) by its byte order mark; accepted: UTF-8"},
      {"\0\0\xfe\xff\0\0\0h"s, 0, "UTF-32 (big-endian) by its byte order mark; accepted: UTF-8"},
      {"\xff\xfeh\0"s, 7, "not UTF-8 at byte offset 7 (0xff); accepted: UTF-8"},
  };

  for (const auto& [text, offset, expected] : cases) EXPECT_EQ(utf8_problem(text, offset), expected) << text;
}

TEST(Utf8, TextsOfFilesHaveNoNuls) {
  const std::string little = "h\0i\0 \0t\0h\0e\0r\0e\0"s, big = "\0h\0i\0 \0t\0h\0e\0r\0e"s;

  struct {
    std::string text;
    std::uint64_t offset;
    const char* expected;
  } const cases[]{
      {"", 0, ""},
      {"na\u00efve \x01", 0, ""},
      {"na\xefve\0"s, 0, "not UTF-8 at byte offset 2 (0xef); accepted: UTF-8"},
      {"\xff\xfeh\0i\0"s, 0, "UTF-16 (little-endian) by its byte order mark; accepted: UTF-8"},
      {little, 0,
       "a NUL character at byte offset 1, as in UTF-16 (little-endian) without a byte order mark; accepted: UTF-8"},
      {big, 0,
       "a NUL character at byte offset 0, as in UTF-16 (big-endian) without a byte order mark; accepted: UTF-8"},
      // What a line feed was found in begins in the middle of a character.
      {"\0"s + little, 101,
       "a NUL character at byte offset 101, as in UTF-16 (little-endian) without a byte order mark; accepted: UTF-8"},
      {big, 100,
       "a NUL character at byte offset 100, as in UTF-16 (big-endian) without a byte order mark; accepted: UTF-8"},
      {"h\0\0\0i\0\0\0"s, 0,
       "a NUL character at byte offset 1, as in UTF-32 without a byte order mark; accepted: UTF-8"},
      {"one.txt\0two.txt\0three.txt\0"s, 0, "a NUL character at byte offset 7; accepted: UTF-8"},
      {"h\0\xe9\0"s, 0,
       "a NUL character at byte offset 1, as in UTF-16 (little-endian) without a byte order mark; accepted: UTF-8"},
      {"\0\0\xfe\xff\0\0\0h"s, 0, "UTF-32 (big-endian) by its byte order mark; accepted: UTF-8"},
      {"abc\0"s, 0, "a NUL character at byte offset 3; accepted: UTF-8"},
      {"\0"s, 0, "a NUL character at byte offset 0; accepted: UTF-8"},
  };

  for (const auto& [text, offset, expected] : cases) EXPECT_EQ(file_text_problem(text, offset), expected) << text;
}

TEST(Utf8, ScanAgreesWithTheWhole) {
  // All leads with second bytes around every bound, and what follows complete, cut off or wrong.
  std::size_t accepted = 0;
  for (unsigned lead = 0; lead < 256; ++lead) {
    for (const unsigned second : {0x00U, 0x41U, 0x7fU, 0x80U, 0x8fU, 0x90U, 0x9fU, 0xa0U, 0xbfU, 0xc0U, 0xffU}) {
      for (const std::string& rest : {""s, "\x80"s, "\x80\xbf"s, "\x80\x80\x80"s, "a"s}) {
        const std::string text = std::string{static_cast<char>(lead), static_cast<char>(second)} + rest;
        Utf8Scan scan;
        bool taken = true;
        for (std::size_t i = 0; i < text.size() && taken; ++i) {
          taken = scan.take(static_cast<unsigned char>(text[i]));
          if (!taken) {
            EXPECT_EQ(i + 1 - scan.open().size(), find_non_utf8(text));
          }
        }
        EXPECT_EQ(taken && scan.open().empty(), is_utf8(text)) << lead << " " << second << " " << rest.size();
        if (is_utf8(text)) ++accepted;
      }
    }
  }
  EXPECT_GT(accepted, 500U);
}

// Whoever wrote a text that is printed must not move the cursor, set a title or turn the line round.
TEST(Utf8, ATerminalShowsAndObeysNothing) {
  struct Row {
    std::string_view text, line, shown;
  };

  for (const auto& [text, line, shown] : std::vector<Row>{
           {"Köln, 東京 🙂", "Köln, 東京 🙂", "Köln, 東京 🙂"},
           {"a\nb\tc", "a b c", "a\nb\tc"},
           {"over\rwritten", "over written", "over\\x0dwritten"},
           {"\x1b]0;title\x07", "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"},
           {"\x7f\x08", "\\x7f\\x08", "\\x7f\\x08"},
           {"\xc2\x9b"
            "31m",
            "\\u009b31m", "\\u009b31m"},
           {"\x9b", "\\x9b", "\\x9b"},
           {"txt\xe2\x80\xae"
            "exe",
            "txt\\u202eexe", "txt\\u202eexe"},
           {"\xe2\x81\xa6", "\\u2066", "\\u2066"},
       }) {
    EXPECT_EQ(one_line(text), line);
    EXPECT_EQ(shown_on_terminal(text), shown);
  }
}

TEST(Utf8, IsRequiredByAnErrorOfTheInput) {
  EXPECT_NO_THROW(require_utf8("plain"));
  try {
    require_utf8("\xe9");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_EQ(error.message(), "not UTF-8 at byte offset 0 (0xe9); accepted: UTF-8");
  }
}

}  // namespace
}  // namespace gpux
