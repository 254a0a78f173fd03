#include "gpux/error.h"

#include <string>

#include <gtest/gtest.h>

#include "base/format_message.h"

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

TEST(Error, CallsSubjectsAsItsEdgeDoes) {
  const Error error(ErrorCode::usage, format_message("{} and {:<4}| {{{}}} of {}", setting_named("verify_key"), 7,
                                                     setting_named("file"), Message{"a", file_at("/b")}));
  EXPECT_EQ(error.message(), "verify_key and 7   | {file} of a/b");
  const auto in_brackets = [](const Subject& subject) { return "[" + subject.name + "]"; };
  EXPECT_EQ(error.message(in_brackets), "[verify_key] and 7   | {[file]} of a[/b]");
  ASSERT_NE(error.subject(), nullptr);
  EXPECT_EQ(*error.subject(), setting_named("verify_key"));
}

TEST(Error, TakesNoSubjectFromTheTextsItQuotes) {
  const Error error(ErrorCode::usage, format_message("'{}' is no {}; {}", "{0}", setting_named("file"), "{"));
  EXPECT_EQ(error.message(), "'{0}' is no file; {");
  EXPECT_EQ(error.message([](const Subject&) { return "--file\n"; }), "'{0}' is no --file ; {");
}

TEST(Error, KeepsItsSubjectWithMoreWords) {
  const Error error(ErrorCode::usage, Message{setting_named("file"), " is empty"});
  const auto upper = [](const Subject& subject) { return subject.name == "file" ? "FILE" : "OTHER"; };
  const Error longer = error.within(Message{setting_named("model")}).followed_by({"; see ", setting_named("help")});
  EXPECT_EQ(longer.message(), "model: file is empty; see help");
  EXPECT_EQ(longer.message(upper), "OTHER: FILE is empty; see OTHER");
  EXPECT_EQ(*longer.subject(), setting_named("file"));
  EXPECT_EQ(*error.within("b").subject(), setting_named("file"));
}

TEST(Error, IsAboutWhatItsMessageDoesNotName) {
  const Subject device{.kind = Subject::Kind::device, .name = {}};
  const Error error(ErrorCode::internal, device, "CUDA failure 700");
  EXPECT_EQ(error.message(), "CUDA failure 700");
  EXPECT_EQ(*error.within("digits").subject(), device);
  EXPECT_EQ(Error(ErrorCode::internal, "x").subject(), nullptr);
  EXPECT_EQ(Error(ErrorCode::internal, Message{"x"}).subject(), nullptr);
}

TEST(Error, CallsThePromptByItsKind) {
  EXPECT_EQ(Error(ErrorCode::usage, format_message("{} has no tokens", the_prompt("length"))).message(),
            "the prompt has no tokens");
}

}  // namespace
}  // namespace gpux
