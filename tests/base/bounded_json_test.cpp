#include "base/bounded_json.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpux {
namespace {

using Ordered = nlohmann::ordered_json;

std::string object_of(int keys) {
  std::string text = "{";
  for (int i = 0; i < keys; ++i) text += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", i, i);
  return text + "}";
}

template <typename Json>
std::string refusal_of(const std::string& text) {
  try {
    (void)parse_bounded_json<Json>(text);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage);
    return error.message();
  }
}

TEST(BoundedJson, IsNotNestedDeeply) {
  const auto nested = [](int levels) { return std::string(levels, '[') + "1" + std::string(levels, ']'); };
  EXPECT_EQ(refusal_of<nlohmann::json>(nested(32)), "");
  EXPECT_EQ(refusal_of<Ordered>(nested(32)), "");
  EXPECT_EQ(refusal_of<nlohmann::json>(nested(33)), "nested deeper than 32 levels");
  EXPECT_EQ(refusal_of<Ordered>(nested(33)), "nested deeper than 32 levels");
}

TEST(BoundedJson, HasFewKeysWhereEachIsComparedWithAll) {
  EXPECT_EQ(refusal_of<nlohmann::json>(object_of(20'000)), "");
  EXPECT_EQ(refusal_of<Ordered>(object_of(1024)), "");
  EXPECT_EQ(refusal_of<Ordered>(object_of(1025)), "an object of more than 1024 keys");
  EXPECT_EQ(refusal_of<Ordered>("[{\"a\":" + object_of(1025) + "}]"), "an object of more than 1024 keys");
  // They are counted for each object alone, also behind one within another.
  const std::string full = object_of(1024);
  EXPECT_EQ(refusal_of<Ordered>("[" + full + "," + full + "]"), "");
  EXPECT_EQ(refusal_of<Ordered>("{\"a\":" + full + ",\"b\":" + full + "}"), "");
  EXPECT_EQ(refusal_of<Ordered>("{\"a\":" + full + "," + object_of(1024).substr(1)),
            "an object of more than 1024 keys");
}

// Of this thread, the least of some tries.
template <typename Json>
double seconds_for(const std::string& text) {
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < 3; ++i) {
    const auto now = [] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double begin = now();
    (void)parse_bounded_json<Json>(text);
    least = std::min(least, now() - begin);
  }
  return least;
}

std::string list_of(int members, const std::string& member) {
  std::string text = "[";
  for (int i = 0; i < members; ++i) text += (i == 0 ? "" : ",") + member;
  return text + "]";
}

// 8 times as much takes about 8 times as long, and not 64 times.
TEST(BoundedJson, TakesTimeInProportionToTheText) {
  constexpr int few = 10'000, many = 80'000;
  const auto ratio = [](const auto& text_of, auto kind) {
    return seconds_for<decltype(kind)>(text_of(many)) / seconds_for<decltype(kind)>(text_of(few));
  };
  const auto objects = [](int members) { return list_of(members, "{}"); };
  const auto lists = [](int members) { return list_of(members, "[1]"); };
  const auto named = [](int members) {
    std::string text = "{";
    for (int i = 0; i < members; ++i) text += fmt::format("{}\"{}\":{{}}", i == 0 ? "" : ",", i);
    return text + "}";
  };
  EXPECT_LT(ratio(objects, nlohmann::json()), 30);
  EXPECT_LT(ratio(objects, Ordered()), 30);
  EXPECT_LT(ratio(lists, nlohmann::json()), 30);
  EXPECT_LT(ratio(named, nlohmann::json()), 30);
}

TEST(BoundedJson, IsTheDocumentAndItsErrors) {
  EXPECT_EQ(parse_bounded_json(R"({"a":[1,-2,1.5,"x",null,true,{"b":{}}]})").dump(),
            R"({"a":[1,-2,1.5,"x",null,true,{"b":{}}]})");
  EXPECT_EQ(parse_bounded_json<Ordered>(R"({"b":1,"a":2})").dump(), R"({"b":1,"a":2})");
  for (const char* text : {"", "{", "[1,]", "{} {}", "{\"a\" 1}", "1e999", "\"\xff\""}) {
    EXPECT_THROW((void)parse_bounded_json(text), nlohmann::json::exception) << text;
  }
}

TEST(BoundedJson, RefusesWholeNumbersThatWouldBeRounded) {
  const std::string digits(400, '9');
  for (const std::string& text :
       {std::string("18446744073709551616"), std::string("-9223372036854775809"), digits, "-" + digits}) {
    EXPECT_TRUE(exceeds_64_bits(text)) << text;
    EXPECT_THROW((void)parse_bounded_json("[" + text + "]", WholeNumbers::exact), Error) << text;
  }
  EXPECT_EQ(parse_bounded_json("[18446744073709551616]").dump(), "[1.8446744073709552e+19]");
  for (const char* text : {"18446744073709551615", "-9223372036854775808", "0", "1.5", "1e30", "-0.0"}) {
    EXPECT_FALSE(exceeds_64_bits(text)) << text;
    EXPECT_EQ(parse_bounded_json(text, WholeNumbers::exact), nlohmann::json::parse(text)) << text;
  }
  for (const char* text : {"", "-", "00000000000000000000000000001", "99999999999999999999x", "a"}) {
    EXPECT_FALSE(exceeds_64_bits(text)) << text;
  }
}

}  // namespace
}  // namespace gpux
