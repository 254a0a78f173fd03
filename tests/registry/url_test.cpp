#include "registry/http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

TEST(Url, IsReadAndWritten) {
  for (const auto& [text, expected] :
       std::vector<std::pair<std::string, std::string>>{{"https://Hub.example", "https://hub.example/"},
                                                        {"HTTP://hub:80/a", "http://hub/a"},
                                                        {"http://hub:8080/a?b#c", "http://hub:8080/a?b"},
                                                        {"https://hub?b", "https://hub/?b"},
                                                        {"https://[::1]:443/", "https://[::1]/"},
                                                        {"http://127.0.0.1:5000/v2/", "http://127.0.0.1:5000/v2/"}}) {
    EXPECT_EQ(parse_url(text).text(), expected);
  }
}

TEST(Url, RefusesWhatItCannotMean) {
  for (const std::string wrong :
       {"", "hub/a", "ftp://hub/", "file:///etc/passwd", "https://", "https:///a", "https://user@hub/",
        "https://hub:0/", "https://hub:65536/", "https://hub:/", "https://hub:x/", "https://hub/a b",
        "https://hub\\@x/", "https://hub/\n", "https://[::1/", "https://[zz]/", "https://hüb/"}) {
    EXPECT_THROW(parse_url(wrong), Error) << wrong;
  }
  EXPECT_THROW(parse_url("https://hub/" + std::string(10'000, 'a')), Error);
}

TEST(Url, ResolvesALocation) {
  const Url base = parse_url("https://hub:8443/a/b?c=d");
  for (const auto& [location, expected] :
       std::vector<std::pair<std::string, std::string>>{{"https://other/x", "https://other/x"},
                                                        {"//other/x", "https://other/x"},
                                                        {"/x?y=https://z", "https://hub:8443/x?y=https://z"},
                                                        {"x", "https://hub:8443/a/x"},
                                                        {"./x", "https://hub:8443/a/x"},
                                                        {"../x", "https://hub:8443/x"},
                                                        {"../../../x", "https://hub:8443/x"},
                                                        {"?y", "https://hub:8443/a/b?y"},
                                                        {"", "https://hub:8443/a/b?c=d"},
                                                        {"#part", "https://hub:8443/a/b?c=d"}}) {
    EXPECT_EQ(resolve_url(base, location).text(), expected) << location;
  }
  EXPECT_THROW(resolve_url(base, "javascript://x"), Error);
  EXPECT_THROW(resolve_url(base, "/a b"), Error);
}

TEST(Url, KnowsItsOriginAndThisMachine) {
  EXPECT_TRUE(has_same_origin(parse_url("https://hub/a"), parse_url("https://HUB:443/b")));
  for (const char* other : {"http://hub/a", "https://hub:444/a", "https://hub.x/a"}) {
    EXPECT_FALSE(has_same_origin(parse_url("https://hub/a"), parse_url(other))) << other;
  }
  for (const char* here : {"localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "[::1]"}) {
    EXPECT_TRUE(is_loopback(here)) << here;
  }
  for (const char* there :
       {"", "localhost.example", "notlocalhost", "127.0.0.1.example", "10.0.0.1", "127.a.b.c", "127.1", "[::2]"}) {
    EXPECT_FALSE(is_loopback(there)) << there;
  }
}

TEST(Url, DoesNotLeadOutOfEncryption) {
  const Url secure = parse_url("https://hub/a"), plain = parse_url("http://hub/a");
  EXPECT_EQ(redirect_url(secure, "/b").text(), "https://hub/b");
  EXPECT_EQ(redirect_url(secure, "https://other/b").text(), "https://other/b");
  EXPECT_EQ(redirect_url(plain, "http://other/b").text(), "http://other/b");
  EXPECT_EQ(redirect_url(plain, "https://hub/b").text(), "https://hub/b");
  for (const char* location : {"http://hub/a", "http://other/b", "http://localhost/b", "ftp://hub/a"}) {
    try {
      static_cast<void>(redirect_url(secure, location));
      ADD_FAILURE() << location;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::network) << location;
    }
  }
}

TEST(Url, IsShownWithoutItsQuery) {
  EXPECT_EQ(without_query(parse_url("https://hub:8443/a/b").text()), "https://hub:8443/a/b");
  EXPECT_EQ(without_query(parse_url("https://hub/a?sig=secret").text()), "https://hub/a?…");
  try {
    static_cast<void>(parse_url("ftp://hub/a?sig=secret"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::Not(testing::HasSubstr("secret")));
  }
}

TEST(Url, IsNamedByItsHostWithOrWithoutThePort) {
  EXPECT_TRUE(names_host({"hub"}, parse_url("https://hub:8443/")));
  EXPECT_TRUE(names_host({"hub:8443"}, parse_url("https://hub:8443/")));
  EXPECT_TRUE(names_host({"hub:443"}, parse_url("https://hub/")));
  EXPECT_FALSE(names_host({"hub:443", "other"}, parse_url("https://hub:8443/")));
}

TEST(PercentEncoded, KeepsOnlyWhatNeedsNoCode) {
  EXPECT_EQ(percent_encoded("a-Z_0.~/ü %"), "a-Z_0.~%2F%C3%BC%20%25");
  EXPECT_EQ(percent_encoded("a/b?c", true), "a/b%3Fc");
}

}  // namespace
}  // namespace gpux::registry
