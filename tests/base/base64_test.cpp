#include "base/base64.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace gpux {
namespace {

TEST(Base64, WritesAndReads) {
  struct {
    std::string_view bytes, text;
  } const cases[]{{"", ""},
                  {"f", "Zg=="},
                  {"fo", "Zm8="},
                  {"foo", "Zm9v"},
                  {"foob", "Zm9vYg=="},
                  {"fooba", "Zm9vYmE="},
                  {"foobar", "Zm9vYmFy"},
                  {"\xfb\xff\xfe", "+//+"}};

  for (const auto& each : cases) {
    const auto bytes = std::as_bytes(std::span(each.bytes));
    EXPECT_EQ(to_base64(bytes), each.text);
    const auto back = from_base64(each.text);
    ASSERT_TRUE(back) << each.text;
    EXPECT_TRUE(std::equal(back->begin(), back->end(), bytes.begin(), bytes.end())) << each.text;
  }
  for (const char* wrong : {"Zg", "Zg=", "Z===", "Zm9*", "====", "Zg==Zg==", "Zm 9"}) {
    EXPECT_FALSE(from_base64(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace gpux
