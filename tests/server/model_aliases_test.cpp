#include "server/models/model_aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string digest = "0123456789ab" + std::string(52, 'c');
const std::string similar_digest = "0123456789ad" + std::string(52, 'c');

const ModelAliases latest{{"minilm:latest", "minilm"}, digest};
const ModelAliases tagged{{"team/other:v2"}, similar_digest};
const ModelAliases beef{{"beef:latest", "beef"}, "cafe" + std::string(60, '0')};
const ModelAliases beef_by_digest{{}, "beef" + std::string(60, '0')};
const ModelAliases file;

std::vector<AliasedVersion> versions() {
  return {{"texts", "1", &latest},
          {"texts", "2", &tagged},
          {"a", "1", &beef},
          {"b", "1", &beef_by_digest},
          {"c", "1", &file}};
}

TEST(ModelAliases, LeadToTheOnlyVersionThatHasThem) {
  struct Case {
    std::string requested, name, version;  // both empty: none
  };

  const std::vector<Case> cases{
      {"minilm:latest", "texts", "1"},
      {"minilm", "texts", "1"},
      {"minilm:v2", "", ""},
      {"team/other:v2", "texts", "2"},
      {"team/other", "", ""},
      {"0123456789ab", "texts", "1"},
      {digest, "texts", "1"},
      {"sha256:" + digest, "texts", "1"},
      {"sha256:0123456789ad", "texts", "2"},
      {digest + "c", "", ""},
      {"cafe", "a", "1"},
      {"caf", "", ""},
      {"CAFE", "", ""},
      {"beef", "a", "1"},  // a name, though it begins another's id
      {"beef0", "b", "1"},
      {"", "", ""},
      {"sha256:", "", ""},
      {"c", "", ""},
  };
  const std::vector<AliasedVersion> all = versions();
  for (const Case& one : cases) {
    SCOPED_TRACE(one.requested);
    const AliasedVersion* found = find_alias(all, one.requested);
    EXPECT_EQ(found == nullptr ? "" : found->name, one.name);
    EXPECT_EQ(found == nullptr ? "" : found->version, one.version);
  }
}

TEST(ModelAliases, OfSeveralModelsAreRefused) {
  std::vector<AliasedVersion> all = versions();
  all.push_back({"copy", "3", &latest});
  for (const std::string& requested :
       {std::string("minilm"), std::string("minilm:latest"), digest, digest.substr(0, 12), "sha256:" + digest}) {
    SCOPED_TRACE(requested);
    try {
      (void)find_alias(all, requested);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), AllOf(HasSubstr("'texts' (version 1)"), HasSubstr("'copy' (version 3)")));
    }
  }
  EXPECT_THROW((void)find_alias(versions(), "0123456789"), Error) << "a beginning of two ids";
}

}  // namespace
}  // namespace gpux::server
