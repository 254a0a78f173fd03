#include "server/requests/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "server/requests/request_memory.h"

namespace gpux::server {
namespace {

using testing::HasSubstr;

struct Line {
  std::string text;
  std::vector<std::string> keys;
  const char* refusal = nullptr;
};

template <typename Read>
void check(const Line& line, const Read& read) {
  SCOPED_TRACE(line.text);
  try {
    const std::vector<std::string> keys = read(line.text);
    EXPECT_EQ(line.refusal, nullptr);
    EXPECT_EQ(keys, line.keys);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    ASSERT_NE(line.refusal, nullptr) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(line.refusal));
  }
}

TEST(ApiKeys, OfAFileSkipComments) {
  for (const Line& line : std::vector<Line>{
           {"first-key-123", {"first-key-123"}},
           {"# two\r\n first-key-123 \r\n\n\tsecond-key-456\n", {"first-key-123", "second-key-456"}},
           {"  # a comment\nfirst-key-123", {"first-key-123"}},
           {"", {}, "keys.txt holds no key"},
           {"\t\t\t\t\t\t\t\t\t\n", {}, "keys.txt holds no key"},
           {"# a comment\n", {}, "keys.txt holds no key"},
           {"short", {}, "less than 8"},
           {"\xef\xbb\xbf"
            "first-key-123\n",
            {"first-key-123"}},
           {"\xef\xbb\xbf# a comment\nfirst-key-123", {"first-key-123"}},
           {std::string("first\0key-123", 13), {}, "a NUL character at byte offset 5"},
           {std::string("\xff\xfe"
                        "f\0i\0r\0s\0t\0-\0k\0e\0y\0",
                        20),
            {},
            "UTF-16"},
           {"first-key-123\xe9", {}, "not UTF-8"},
           {"first\x1bkey-123", {}, "control characters"},
       }) {
    check(line, [](const std::string& text) { return keys_of_file(text, "keys.txt"); });
  }
}

TEST(ApiKeys, IdentifyTheKeyOfARequest) {
  const std::vector<std::string> keys{"first-key-123", "second-key-456"};
  EXPECT_EQ(key_of(keys, "Bearer first-key-123", ""), 0);
  EXPECT_EQ(key_of(keys, "bearer second-key-456", ""), 1);
  EXPECT_EQ(key_of(keys, "", "second-key-456"), 1);
  EXPECT_EQ(key_of(keys, "Bearer first-key-123", "second-key-456"), 0);
  EXPECT_EQ(key_of(keys, "Bearer first-key-12", ""), std::nullopt);
  EXPECT_EQ(key_of({}, "Bearer first-key-123", ""), std::nullopt);
}

// Each of these would otherwise start a server that asks nobody for a key.
TEST(ApiKeys, OfTheVariableAreNeverNone) {
  for (const Line& line : std::vector<Line>{
           {"first-key-123", {"first-key-123"}},
           {"first-key-123\nsecond-key-456\n", {"first-key-123", "second-key-456"}},
           {"", {}, "has no key"},
           {"   ", {}, "has no key"},
           {"\n\t\r\n", {}, "has no key"},
           {"#first-key-123", {}, "begins with '#'"},
           {"  # first-key-123", {}, "begins with '#'"},
           {"first-key-123\n#second-key-456", {}, "begins with '#'"},
           {"short", {}, "less than 8"},
       }) {
    check(line, [](const std::string& text) { return keys_of_variable(text); });
  }
}

TEST(ApiKeys, HeldAreComparedWhole) {
  const std::vector<std::string> keys{"first-key-123", "second-key-456"};

  struct Case {
    const char* authorization;
    const char* x_api_key;
    bool is_held;
  };

  for (const Case& one : {
           Case{"", "first-key-123", true},
           Case{"", "second-key-456", true},
           Case{"Bearer first-key-123", "", true},
           Case{"bEARER second-key-456", "", true},
           // Where both are given, the field that is made for it counts.
           Case{"Bearer second-key-456", "wrong-key", true},
           Case{"Bearer wrong-key", "second-key-456", false},
           Case{"Basic first-key-123", "", false},
           Case{"first-key-123", "", false},
           Case{"Bearer ", "", false},
           Case{"", "", false},
           Case{"", "first-key-12", false},
           Case{"", "first-key-1234", false},
           Case{"", "first-key-124", false},
           Case{"", "girst-key-123", false},
           Case{"", "First-key-123", false},
           Case{"", "first-key-123first-key-123", false},
           Case{"", "first-key-123\nsecond-key-456", false},
       }) {
    EXPECT_EQ(holds_key(keys, one.authorization, one.x_api_key), one.is_held)
        << one.authorization << " | " << one.x_api_key;
  }
  EXPECT_TRUE(holds_key({}, "", "")) << "no keys are set";
}

TEST(RequestMemory, HasRoomForTheLargestBody) {
  constexpr std::uint64_t mib = 1 << 20, gib = 1 << 30;
  EXPECT_EQ(request_memory_bytes(64 * mib, 16 * gib), gib);
  EXPECT_EQ(request_memory_bytes(1, 16 * gib), gib);
  EXPECT_EQ(request_memory_bytes(2 * gib, 16 * gib), 8 * gib);
  EXPECT_EQ(request_memory_bytes(64 * mib, gib), gib / 2);
  EXPECT_EQ(request_memory_bytes(64 * mib, 128 * mib), 256 * mib);
  EXPECT_THROW(request_memory_bytes(4 * gib + 1, 16 * gib), Error);
  EXPECT_THROW(request_memory_bytes(std::uint64_t{1} << 40, 16 * gib), Error);
  EXPECT_THROW(request_memory_bytes(65 * mib, 128 * mib), Error);
}

}  // namespace
}  // namespace gpux::server
