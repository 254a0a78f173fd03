#include "gpux/error.h"

#include <string>

#include <gtest/gtest.h>

namespace gpux {
namespace {

using namespace std::string_literals;

TEST(Error, IsOneLineOfTextWhateverItQuotes) {
  const std::pair<std::string, std::string> cases[] = {
      {"'é…' is no size", "'é…' is no size"},
      {"two\nlines\r\tand more", "two lines  and more"},
      {"a terminal's \x1b[31m", "a terminal's \\x1b[31m"},
      {"zero \0 and delete \x7f"s, "zero \\x00 and delete \\x7f"},
      {"cut off: \xe2\x80", "cut off: \\xe2\\x80"},
      {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80"},
      {"overlong \xc0\x80", "overlong \\xc0\\x80"},
      {"", ""},
  };
  for (const auto& [message, shown] : cases) EXPECT_EQ(Error(ErrorCode::usage, message).message(), shown);
}

TEST(Error, KeepsItsCodeWithinAContext) {
  const Error error = Error(ErrorCode::storage, "is damaged").within("the file\xff");
  EXPECT_EQ(error.message(), "the file\\xff: is damaged");
  EXPECT_EQ(error.code(), ErrorCode::storage);
}

}  // namespace
}  // namespace gpux
