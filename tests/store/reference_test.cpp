#include "store/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux {
namespace {

TEST(Reference, ReadsNamesAndTags) {
  struct Case {
    std::string text, name, tag;
  };

  const std::string long_tag(128, 'x');
  const std::vector<Case> cases{
      {"digits", "digits", "latest"},
      {"digits:1.0.0", "digits", "1.0.0"},
      {"org/my_model-v2.small:Q4_K", "org/my_model-v2.small", "Q4_K"},
      {"a__b--c", "a__b--c", "latest"},
      {"host.example:5000/team/digits", "host.example:5000/team/digits", "latest"},
      {"host:5000/digits:2", "host:5000/digits", "2"},
      {"digits:" + long_tag, "digits", long_tag},
      {"1:2", "1", "2"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    const Reference reference = parse_reference(one.text);
    EXPECT_EQ(reference.name, one.name);
    EXPECT_EQ(reference.tag, one.tag);
    EXPECT_EQ(parse_reference(reference.text()), reference);
  }
}

TEST(Reference, IdsAreTheFirstDigitsOfADigest) {
  const std::string digest(64, 'a');
  for (const std::string& id : {std::string("0a9f"), std::string("0123456789ab"), digest}) {
    EXPECT_EQ(id_digits(id), id);
    EXPECT_EQ(id_digits("sha256:" + id), id);
  }
  for (const std::string& text : {std::string(), std::string("abc"), std::string("sha256:abc"), std::string("ABCD"),
                                  std::string("sha512:abcd"), std::string("abcg"), digest + "a"}) {
    EXPECT_EQ(id_digits(text), "") << text;
  }
}

TEST(Reference, RefusesTheRest) {
  for (const std::string& text : {std::string(),
                                  std::string(":1"),
                                  std::string("digits:"),
                                  std::string("Digits"),
                                  std::string("-a"),
                                  std::string("a-"),
                                  std::string("a..b"),
                                  std::string("a___b"),
                                  std::string("a._b"),
                                  std::string("a//b"),
                                  std::string("/a"),
                                  std::string("a/"),
                                  std::string("../a"),
                                  std::string("a b"),
                                  std::string("a:b:c"),
                                  std::string("a:b/c"),
                                  std::string("a:.b"),
                                  std::string("a:-b"),
                                  std::string("a:b c"),
                                  std::string("a\nb"),
                                  std::string("é"),
                                  std::string(300, 'a'),
                                  "a:" + std::string(129, 'x'),
                                  std::string("host:port/a"),
                                  std::string("a@sha256:00")}) {
    SCOPED_TRACE(text);
    try {
      parse_reference(text);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), testing::Not(testing::HasSubstr("\n")));
    }
  }
}

TEST(Reference, HintsAtLowerCase) {
  try {
    parse_reference("MyModel:1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("did you mean 'mymodel'?"));
  }
}

}  // namespace
}  // namespace gpux
