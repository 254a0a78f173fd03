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
  std::vector<ApiKey> keys;
  const char* refusal = nullptr;
};

template <typename Read>
void check(const Line& line, const Read& read) {
  SCOPED_TRACE(line.text);
  try {
    const std::vector<ApiKey> keys = read(line.text);
    EXPECT_EQ(line.refusal, nullptr);
    EXPECT_EQ(keys, line.keys);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    ASSERT_NE(line.refusal, nullptr) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(line.refusal));
  }
}

const ApiKey first{"", "first-key-123"}, second{"", "second-key-456"};

TEST(ApiKeys, OfAFileSkipComments) {
  for (const Line& line : std::vector<Line>{
           {"first-key-123", {first}},
           {"# two\r\n first-key-123 \r\n\n\tsecond-key-456\n", {first, second}},
           {"  # a comment\nfirst-key-123", {first}},
           {"", {}, "keys.txt holds no key"},
           {"\t\t\t\t\t\t\t\t\t\n", {}, "keys.txt holds no key"},
           {"# a comment\n", {}, "keys.txt holds no key"},
           {"short", {}, "less than 8"},
           {"\xef\xbb\xbf"
            "first-key-123\n",
            {first}},
           {"\xef\xbb\xbf# a comment\nfirst-key-123", {first}},
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

TEST(ApiKeys, OfAFileMayHaveNames) {
  for (const Line& line : std::vector<Line>{
           {"alice=first-key-123", {{"alice", "first-key-123"}}},
           {"team-1.a_b@c=first=key=123=", {{"team-1.a_b@c", "first=key=123="}}},
           // Of base64.
           {"first-key-123==", {{"", "first-key-123=="}}},
           // No name has a blank or a slash.
           {"a b=first-key-123", {{"", "a b=first-key-123"}}},
           {"a/b=first-key-123", {{"", "a/b=first-key-123"}}},
           {"=first-key-123", {{"", "=first-key-123"}}},
           {"alice=short", {}, "less than 8"},
           {"key-2=first-key-123", {}, "'key-2' is a name that gpux gives"},
           {"key-x=first-key-123", {{"key-x", "first-key-123"}}},
           {"anonymous=first-key-123", {}, "'anonymous' is a name that gpux gives"},
       }) {
    check(line, [](const std::string& text) { return keys_of_file(text, "keys.txt"); });
  }
}

TEST(ApiKeys, NoErrorShowsAKey) {
  for (const std::string text : {"alice=secret", "key-2=first-secret-123", "first-secret\x01", "a=first-secret\x01"}) {
    try {
      (void)keys_of_file(text, "keys.txt");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), testing::Not(HasSubstr("secret")));
    }
  }
}

std::string name_of(const ApiKeys& keys, std::string_view authorization, std::string_view x_api_key) {
  const KeyHolder* holder = keys.find(authorization, x_api_key);
  return holder == nullptr ? "" : holder->name;
}

TEST(ApiKeys, IdentifyTheKeyOfARequest) {
  const ApiKeys keys(std::vector<ApiKey>{first, {"bob", "second-key-456"}}, {});
  EXPECT_EQ(name_of(keys, "Bearer first-key-123", ""), "key-1");
  EXPECT_EQ(name_of(keys, "bearer second-key-456", ""), "bob");
  EXPECT_EQ(name_of(keys, "", "second-key-456"), "bob");
  EXPECT_EQ(name_of(keys, "Bearer first-key-123", "second-key-456"), "key-1");
  EXPECT_EQ(name_of(keys, "Bearer first-key-12", ""), "");
  EXPECT_EQ(name_of({}, "Bearer first-key-123", ""), "");
}

// Otherwise what is kept for one key would be another's after a reload.
TEST(ApiKeys, WithoutANameKeepTheirNumberAndGiveItToNobody) {
  const ApiKeys before(std::vector<ApiKey>{first, second}, {});
  EXPECT_EQ(name_of(before, "", second.secret), "key-2");
  const ApiKeys after(std::vector<ApiKey>{{"", "third-key-789"}, second}, {}, &before);
  EXPECT_EQ(name_of(after, "", second.secret), "key-2");
  EXPECT_EQ(name_of(after, "", "third-key-789"), "key-3");
  EXPECT_EQ(name_of(after, "", first.secret), "");
  const ApiKeys again(std::vector<ApiKey>{first}, {}, &after);
  EXPECT_EQ(name_of(again, "", first.secret), "key-4");
  const ApiKeys named(std::vector<ApiKey>{{"bob", second.secret}}, {}, &after);
  EXPECT_EQ(name_of(named, "", second.secret), "bob");
}

TEST(ApiKeys, AreOfOneNameAndOneKind) {
  const std::vector<ApiKey> one{{"alice", "first-key-123"}}, other{{"bob", "first-key-123"}};
  const std::vector<ApiKey> both{one.front(), other.front()}, twice{one.front(), first};
  EXPECT_THROW(ApiKeys(both, {}), Error);
  EXPECT_THROW(ApiKeys(one, one), Error);
  EXPECT_EQ(name_of(ApiKeys(twice, {}), "", "first-key-123"), "alice");
}

// Each of these would otherwise start a server that asks nobody for a key.
TEST(ApiKeys, OfTheVariableAreNeverNone) {
  for (const Line& line : std::vector<Line>{
           {"first-key-123", {first}},
           {"first-key-123\nbob=second-key-456\n", {first, {"bob", "second-key-456"}}},
           {"", {}, "VARIABLE is set and has no key"},
           {"   ", {}, "has no key"},
           {"\n\t\r\n", {}, "has no key"},
           {"#first-key-123", {}, "begins with '#'"},
           {"  # first-key-123", {}, "begins with '#'"},
           {"first-key-123\n#second-key-456", {}, "begins with '#'"},
           {"short", {}, "less than 8"},
       }) {
    check(line, [](const std::string& text) { return keys_of_variable(text, "VARIABLE"); });
  }
}

TEST(ApiKeys, HeldAreComparedWhole) {
  const ApiKeys keys(std::vector<ApiKey>{first, second}, {});

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
    EXPECT_EQ(!key_refusal(keys, KeyNeed::any, one.authorization, one.x_api_key), one.is_held)
        << one.authorization << " | " << one.x_api_key;
  }
  EXPECT_EQ(key_refusal({}, KeyNeed::any, "", "").has_value(), false) << "no keys are set";
}

TEST(ApiKeys, AdminKeysAloneChangeModelsWhereThereAreSuch) {
  const std::vector<ApiKey> some{{"alice", "first-key-123"}}, admins{{"root", "admin-key-123"}};
  const ApiKeys none, keys(some, {}), both(some, admins), only_admins({}, admins);
  const auto status = [](const ApiKeys& of, KeyNeed need, const char* key) {
    const auto refusal = key_refusal(of, need, "", key);
    return !refusal ? 200 : refusal->is_known ? 403 : 401;
  };

  struct Case {
    const ApiKeys& keys;
    const char* key;
    int none, any, admin;
  };

  for (const Case& one : {
           Case{none, "", 200, 200, 200},
           Case{keys, "", 200, 401, 401},
           Case{keys, "first-key-123", 200, 200, 200},
           Case{both, "", 200, 401, 401},
           Case{both, "first-key-123", 200, 200, 403},
           Case{both, "admin-key-123", 200, 200, 200},
           Case{both, "wrong-key-123", 200, 401, 401},
           // Everybody may use models.
           Case{only_admins, "", 200, 200, 401},
           Case{only_admins, "wrong-key-123", 200, 200, 401},
           Case{only_admins, "admin-key-123", 200, 200, 200},
       }) {
    SCOPED_TRACE(one.key);
    EXPECT_EQ(status(one.keys, KeyNeed::none, one.key), one.none);
    EXPECT_EQ(status(one.keys, KeyNeed::any, one.key), one.any);
    EXPECT_EQ(status(one.keys, KeyNeed::admin, one.key), one.admin);
  }
  EXPECT_THAT(key_refusal(both, KeyNeed::admin, "", "first-key-123")->message, HasSubstr("'alice'"));
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
