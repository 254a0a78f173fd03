#include "vector_store/filter.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

TEST(Filter, ConditionsAreReadByTheFormOfTheirValue) {
  const std::pair<const char*, Condition> table[]{
      {"plugin=net", {{"plugin"}, "net"}},
      {"a.b.c=x=y", {{"a", "b", "c"}, "x=y"}},
      {"size=3", {{"size"}, 3}},
      {"size=3.5", {{"size"}, 3.5}},
      {"size=\"3\"", {{"size"}, "3"}},
      {"is_new=true", {{"is_new"}, true}},
      {"owner=null", {{"owner"}, nullptr}},
      {"name=", {{"name"}, ""}},
      {"name=[1]", {{"name"}, "[1]"}},
      {"name={\"a\": 1}", {{"name"}, "{\"a\": 1}"}},
      {"name=007", {{"name"}, "007"}},
  };
  for (const auto& [text, condition] : table) EXPECT_EQ(parse_condition(text), condition) << text;
  for (const char* wrong : {"", "plugin", "=net", "a..b=1", ".a=1", "a.=1", "a\xff=1"}) {
    EXPECT_THROW((void)parse_condition(wrong), Error) << wrong;
  }
}

TEST(Filter, AWholeNumberOfMoreThan64BitsIsRefused) {
  EXPECT_EQ(parse_condition("id=18446744073709551615").value, Json(18446744073709551615U));
  EXPECT_EQ(parse_condition("id=-9223372036854775808").value, Json(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(parse_condition("id=\"18446744073709551616\"").value, "18446744073709551616");
  EXPECT_EQ(parse_condition("id=1e30").value, 1e30);
  for (const char* wrong : {"id=18446744073709551616", "id=-9223372036854775809"}) {
    try {
      (void)parse_condition(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), testing::HasSubstr("does not fit in 64 bits; give it as text, as 'id=\""));
    }
  }
  EXPECT_THROW((void)parse_condition("id=" + std::string(400, '9')), Error);
}

TEST(Filter, MatchesAPayloadThatHasAllOfIt) {
  const Json payload =
      Json::parse(R"({"plugin": "net", "size": 3, "meta": {"user": "root", "tags": ["a", "b"]}, "x": null})");
  const std::pair<std::vector<const char*>, bool> table[]{
      {{}, true},
      {{"plugin=net"}, true},
      {{"plugin=net", "size=3"}, true},
      {{"size=3.0"}, true},
      {{"plugin=net", "size=4"}, false},
      {{"size=\"3\""}, false},
      {{"meta.user=root"}, true},
      {{"meta.tags=b"}, true},
      {{"meta.tags=c"}, false},
      {{"meta=root"}, false},
      {{"plugin.name=net"}, false},
      {{"x=null"}, true},
      {{"y=null"}, false},
  };
  for (const auto& [texts, expected] : table) {
    Filter filter;
    for (const char* text : texts) filter.push_back(parse_condition(text));
    EXPECT_EQ(matches(payload, filter), expected) << testing::PrintToString(texts);
  }
}

TEST(Filter, IsWhatAPayloadContains) {
  EXPECT_THAT(containment_of({parse_condition("a.b=1"), parse_condition("c=x\"y")}),
              ElementsAre(ContainedObjects{R"({"a":{"b":1}})", R"({"a":{"b":[1]}})"},
                          ContainedObjects{R"({"c":"x\"y"})", R"({"c":["x\"y"]})"}));
}

}  // namespace
}  // namespace gpux::vector_store
