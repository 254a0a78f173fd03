#include "registry/oci/auth_challenge.h"

#include <gtest/gtest.h>

#include "gpux/error.h"
#include "registry/oci/token.h"

namespace gpux::oci {
namespace {

TEST(AuthChallenge, ReadsTheGrammar) {
  struct Case {
    std::string header;
    std::vector<AuthChallenge> challenges;
  };

  const std::vector<Case> cases{
      {R"(Bearer realm="https://a/token",service="s",scope="repository:a:pull,push")",
       {{"bearer", "", {{"realm", "https://a/token"}, {"service", "s"}, {"scope", "repository:a:pull,push"}}}}},
      {"Basic realm=x", {{"basic", "", {{"realm", "x"}}}}},
      {R"(basic REALM = "a \"b\" \\c" , Bearer realm="y")",
       {{"basic", "", {{"realm", R"(a "b" \c)"}}}, {"bearer", "", {{"realm", "y"}}}}},
      {"Negotiate, Basic realm=\"x\"", {{"negotiate", "", {}}, {"basic", "", {{"realm", "x"}}}}},
      {"NTLM abc+/==, Basic realm=\"x\"", {{"ntlm", "abc+/==", {}}, {"basic", "", {{"realm", "x"}}}}},
      {",, Basic realm=\"x\",,", {{"basic", "", {{"realm", "x"}}}}},
      {"Basic", {{"basic", "", {}}}},
      {"", {}},
      {"=", {}},
      {R"(Basic realm="x", Bearer realm="never ends)", {{"basic", "", {{"realm", "x"}}}}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.header);
    const std::vector<AuthChallenge> found = parse_auth_challenges(one.header);
    ASSERT_GE(found.size(), one.challenges.size());
    for (std::size_t i = 0; i < one.challenges.size(); ++i) EXPECT_EQ(found[i], one.challenges[i]);
  }
}

TEST(AuthChallenge, IsBounded) {
  std::string header;
  for (int i = 0; i < 1000; ++i) header += "Basic realm=\"x\", ";
  EXPECT_LE(parse_auth_challenges(header).size(), 16U);
}

TEST(TokenAnswer, ReadsBothNamesAndTheirTime) {
  EXPECT_EQ(parse_token_answer(R"({"token": "a", "access_token": "b"})").token, "a");
  const TokenAnswer answer = parse_token_answer(R"({"access_token": "b", "expires_in": 300, "refresh_token": "r"})");
  EXPECT_EQ(answer.token, "b");
  EXPECT_EQ(answer.expires_in.count(), 300);
  EXPECT_EQ(answer.refresh_token, "r");
  EXPECT_EQ(parse_token_answer(R"({"token": "a"})").expires_in.count(), 60);
  EXPECT_EQ(parse_token_answer(R"({"token": "a", "expires_in": 1e300})").expires_in.count(), 86400);
  EXPECT_EQ(parse_token_answer(R"({"token": "a", "expires_in": -5})").expires_in.count(), 0);
  for (const char* json :
       {"", "[]", "{}", R"({"token": 1})", R"({"token": ""})", R"({"token": "a b"})", R"({"token": "a\r\nX: y"})"}) {
    EXPECT_THROW(parse_token_answer(json), Error) << json;
  }
}

}  // namespace
}  // namespace gpux::oci
