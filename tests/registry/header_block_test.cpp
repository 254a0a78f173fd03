#include "registry/http/header_block.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::registry {
namespace {

TEST(HeaderBlock, KeepsTheLastAnswersHeaders) {
  HeaderBlock block;
  for (const char* line : {"HTTP/1.1 100 Continue\r\n", "X-Old: 1\r\n", "\r\n", "HTTP/1.1 200 OK\r\n",
                           "ETag:  \"a\" \r\n", "no colon\r\n", ": no name\r\n", "\r\n"}) {
    block.add_line(line);
  }
  EXPECT_FALSE(block.headers().has("x-old"));
  EXPECT_EQ(block.headers().find("etag"), "\"a\"");
  EXPECT_EQ(block.headers().entries().size(), 1U);
}

TEST(HeaderBlock, IsBounded) {
  HeaderBlock many, large;
  EXPECT_THROW(for (int i = 0; i < 300; ++i) many.add_line("a: b"), Error);
  EXPECT_THROW(for (int i = 0; i < 100; ++i) large.add_line("a: " + std::string(10'000, 'x')), Error);
}

TEST(ContentRange, IsReadOrRefused) {
  const auto range = parse_content_range("bytes 5-9/20");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5U);
  EXPECT_EQ(range->last, 9U);
  EXPECT_EQ(range->size, 20U);
  EXPECT_FALSE(parse_content_range("bytes 0-0/*")->size);
  for (const char* wrong : {"", "bytes", "bytes */20", "bytes 9-5/20", "bytes 5-20/20", "bytes 5-9", "bytes 5-9/x",
                            "items 5-9/20", "bytes -1-9/20", "bytes 99999999999999999999-9/20"}) {
    EXPECT_FALSE(parse_content_range(wrong)) << wrong;
  }
}

TEST(RetryAfter, IsSecondsOrADate) {
  using std::chrono::seconds;
  const auto now = std::chrono::sys_days(std::chrono::year(1994) / 11 / 6) + std::chrono::hours(8);
  EXPECT_EQ(parse_retry_after("120", now), seconds(120));
  EXPECT_EQ(parse_retry_after(" 0 ", now), seconds(0));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), seconds(49 * 60 + 37));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 07:49:37 GMT", now), seconds(0));
  for (const char* wrong : {"", "-1", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 36 Nov 1994 08:49:37 GMT",
                            "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 06 Nov 1994 25:49:37 GMT"}) {
    EXPECT_FALSE(parse_retry_after(wrong, now)) << wrong;
  }
}

TEST(StripEtag, RemovesTheQuotes) {
  EXPECT_EQ(strip_etag("\"abc\""), "abc");
  EXPECT_EQ(strip_etag("W/\"abc\""), "abc");
  EXPECT_EQ(strip_etag("abc"), "abc");
  EXPECT_EQ(strip_etag("\""), "\"");
}

TEST(IsStrongEtag, SaysWhetherTheBytesAreTheSame) {
  EXPECT_TRUE(is_strong_etag("\"abc\""));
  EXPECT_FALSE(is_strong_etag("W/\"abc\""));
  EXPECT_FALSE(is_strong_etag(""));
}

TEST(FindLink, GivesTheUrlOfTheName) {
  const char* value = "<https://hub/a?x=1>; rel=\"prev\", <https://hub/b>; rel=\"next\"";
  EXPECT_EQ(find_link(value, "next"), "https://hub/b");
  EXPECT_EQ(find_link(value, "prev"), "https://hub/a?x=1");
  EXPECT_EQ(find_link(value, "last"), "");
  EXPECT_EQ(find_link("<", "next"), "");
  EXPECT_EQ(find_link("", "next"), "");
}

}  // namespace
}  // namespace gpux::registry
