#include "base/bounded_json.h"

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

}  // namespace
}  // namespace gpux
