#include "tensor/json_envelope.h"

#include <gmock/gmock.h>

#include "tensors.h"

namespace gpux::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> as_text(const std::vector<JsonInput>& members) {
  std::vector<std::string> texts;
  for (const JsonInput& member : members) texts.push_back(member.name + "=" + std::string(member.raw));
  return texts;
}

TEST(JsonEnvelope, SplitsObjects) {
  EXPECT_THAT(as_text(split_object(" {} ")), IsEmpty());
  EXPECT_THAT(as_text(split_object(R"( { "a" : [1, [2]] ,"b":"x,}\"", "c": NaN, "d":{"e":"]"}, "f":-Infinity} )")),
              ElementsAre("a=[1, [2]]", R"(b="x,}\"")", "c=NaN", R"(d={"e":"]"})", "f=-Infinity"));
  EXPECT_THAT(as_text(split_object(R"({"\u00e9\"/":1, "日本":null})")), ElementsAre("é\"/=1", "日本=null"));
  const std::string numbers(1000, '7');
  EXPECT_THAT(as_text(split_object("{\"x\":[" + numbers + "],\"y\":[[" + numbers + "],[\"" + numbers + "\"]]}")),
              ElementsAre("x=[" + numbers + "]", "y=[[" + numbers + "],[\"" + numbers + "\"]]"));
}

TEST(JsonEnvelope, CountsAtLeastTheValues) {
  EXPECT_EQ(count_values_at_most(""), 1);
  EXPECT_EQ(count_values_at_most("[]"), 2);
  EXPECT_EQ(count_values_at_most("[[1,2],[3,4]]"), 7);
  EXPECT_EQ(count_values_at_most(R"({"a":"x,y[{"})"), 5);
  // Blocks of commas alone, more than a byte counts.
  for (const std::size_t size : {127U, 128U, 129U, 256U, 1000U}) {
    EXPECT_EQ(count_values_at_most(std::string(size, ',')), size + 1);
    EXPECT_EQ(count_values_at_most(std::string(size, '0')), 1);
  }
}

TEST(JsonEnvelope, SplitsArraysAndLines) {
  EXPECT_THAT(split_array(" [ ] "), IsEmpty());
  EXPECT_THAT(split_array(R"([{"x":[1,2]}, 3 ,"a,b"])"), ElementsAre(R"({"x":[1,2]})", "3", R"("a,b")"));
  EXPECT_THAT(split_lines(" \n "), IsEmpty());
  EXPECT_THAT(split_lines("{\"x\":1}\n\n{\"x\":2}\r\n"), ElementsAre("{\"x\":1}", "{\"x\":2}"));
  EXPECT_THAT(split_lines("{\n \"x\": 1\n}\n"), ElementsAre("{\n \"x\": 1\n}"));
  EXPECT_TRUE(is_array("\n [1]"));
  EXPECT_FALSE(is_array("{}"));
  EXPECT_FALSE(is_array(""));
  EXPECT_TRUE(is_object(" {"));
}

TEST(JsonEnvelope, RefusesWithThePlace) {
  const struct {
    std::string text;
    std::string expected;
  } cases[] = {
      {"", "line 1, column 1: the end of the text found where an object was expected"},
      {"[1]", "[ found where an object"},
      {"{\"a\":1,\n  \"b\" 2}", "line 2, column 7: 2 found where ':' was expected"},
      {"{\"a\":1,}", "} found where a name in quotes was expected"},
      {"{a:1}", "a found where a name in quotes"},
      {"{\"a\":}", "} found where a value was expected"},
      {"{\"a\":1 \"b\":2}", "\"b\" found where ',' or '}' was expected"},
      {"{\"a\":1} x", "x found where the end was expected"},
      {"{\"a\":1}{", "{ found where the end was expected"},
      {"{\"a\":[1}", "} found where ']' was expected"},
      {"{\"a\":{1]", "] found where '}' was expected"},
      {"{\"a\":[1", "the end of the text found where ']' was expected"},
      {"{\"a\":1,\"\\u0061\":2}", "the object has the name \"a\" twice"},
      {"{\"a", "the string has no end"},
      {"{\"a\":\"b", "the string has no end"},
      {"{\"a\":\"b\\", "the string has no end"},
      {"{\"\xff\":1}", "not UTF-8"},
      {"{\"\\ud800\":1}", "surrogate"},
      {std::string("{\"a\":\0}", 7), "found where a value was expected"},
  };

  for (const auto& c : cases) {
    EXPECT_THAT(refusal_of([&] { split_object(c.text); }), HasSubstr(c.expected)) << c.text;
  }
  EXPECT_THAT(refusal_of([] { split_array("[1,]"); }), HasSubstr("] found where a value"));
  EXPECT_THAT(refusal_of([] { split_lines("{} {}"); }), HasSubstr("{ found where the line should end"));
}

TEST(JsonEnvelope, EndsDeepTextsCleanly) {
  const std::string deep(1000000, '[');
  EXPECT_THAT(refusal_of([&] { split_object("{\"x\":" + deep); }), HasSubstr("deeper than 136"));
  EXPECT_THAT(refusal_of([&] { split_array(deep); }), HasSubstr("deeper than 136"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_THAT(refusal_of([&] { split_object(objects); }), HasSubstr("deeper than 136"));
  const std::string allowed = std::string(136, '[') + std::string(136, ']');
  EXPECT_THAT(as_text(split_object("{\"x\":" + allowed + "}")), ElementsAre("x=" + allowed));
}

TEST(JsonEnvelope, EveryTruncationIsRefused) {
  const std::string whole = R"({"a": [1, {"b": "c\u00e9\\"}], "d": NaN, "e": {"f": [[], "g"]}})";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(refusal_of([&] { split_object(whole.substr(0, length)); }), HasSubstr("JSON, line 1")) << length;
  }
  EXPECT_EQ(split_object(whole).size(), 3U);
}

}  // namespace
}  // namespace gpux::test
