#include "project/trust_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const TrustPolicy policy{{{"registry.example", {"A"}, "trust.yml:2:3"},
                          {"registry.example/team", {"B", "C"}, "trust.yml:3:3"},
                          {"localhost:5000", {"D"}, "trust.yml:4:3"}}};

TEST(TrustPolicy, HasTheRuleOfTheLongestPrefix) {
  const auto prefix_for = [](const char* reference) {
    const TrustRule* rule = policy.rule_for(reference);
    return rule == nullptr ? std::string() : rule->prefix;
  };
  EXPECT_EQ(prefix_for("registry.example/other/m:1"), "registry.example");
  EXPECT_EQ(prefix_for("Registry.Example/m@sha256:00"), "registry.example");
  EXPECT_EQ(prefix_for("registry.example/team/m:1"), "registry.example/team");
  EXPECT_EQ(prefix_for("registry.example/team:1"), "registry.example/team");
  EXPECT_EQ(prefix_for("localhost:5000/m:1@sha256:00"), "localhost:5000");
  // Other machines and repositories that only begin so.
  for (const char* other : {"registry.example.org/m", "registry.example:444/m", "localhost:50001/m", "localhost/m", "",
                            "https://huggingface.co/registry.example/m", "/home/registry.example/a.tar"}) {
    EXPECT_EQ(prefix_for(other), "") << other;
  }
  EXPECT_EQ(prefix_for("registry.example/teams/m"), "registry.example");
}

TEST(TrustPolicy, DecidesWhoseSignatureAPullNeeds) {
  const auto keys = [](const char* reference, const std::vector<std::string>& given, const char* former) {
    return required_signature(policy, reference, given, former).keys;
  };
  EXPECT_THAT(keys("elsewhere.example/m:1", {}, ""), ElementsAre());
  EXPECT_THAT(keys("elsewhere.example/m:1", {"X"}, ""), ElementsAre("X"));
  EXPECT_THAT(keys("elsewhere.example/m:1", {}, "F"), ElementsAre("F")) << "a verified package stays one";
  EXPECT_THAT(keys("elsewhere.example/m:1", {"X"}, "F"), ElementsAre("X"));
  EXPECT_THAT(keys("registry.example/team/m:1", {}, ""), ElementsAre("B", "C"));
  EXPECT_THAT(keys("registry.example/team/m:1", {}, "F"), ElementsAre("B", "C"));
  EXPECT_THAT(keys("registry.example/team/m:1", {"X", "C"}, ""), ElementsAre("C"));
  try {
    (void)keys("registry.example/team/m:1", {"X"}, "");
    ADD_FAILURE() << "a flag weakens the policy";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), HasSubstr("trust.yml:3:3"));
  }
}

TEST(TrustPolicy, RefusesStoredPackagesWithoutASignature) {
  StoredModel model;
  model.reference = parse_reference("m:1");
  EXPECT_TRUE(is_trusted(policy, model)) << "made here";
  model.pulled_from = "elsewhere.example/m:1";
  EXPECT_TRUE(is_trusted(policy, model));
  model.pulled_from = "registry.example/team/m:1";
  for (const char* key : {"", "A", "X"}) {
    model.verified_by = key;
    EXPECT_FALSE(is_trusted(policy, model)) << key;
    try {
      require_trusted(policy, model);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::network);
      EXPECT_THAT(error.message(), testing::AllOf(HasSubstr("'m:1' was pulled from registry.example/team/m:1"),
                                                  HasSubstr("trust.yml:3:3"), HasSubstr("gpux pull")));
    }
  }
  model.verified_by = "C";
  EXPECT_NO_THROW(require_trusted(policy, model));
}

TEST(TrustPolicy, IsReadFromTheHome) {
  const test::TemporaryFolder home;
  EXPECT_TRUE(read_trust_policy(home.path()).rules.empty());
  home.write("keys/team.pub",
             "-----BEGIN PUBLIC KEY-----\nAB\nCD\n-----END PUBLIC KEY-----\n"
             "-----BEGIN PUBLIC KEY-----\nEF\n-----END PUBLIC KEY-----\n");
  home.write("trust.yml", "registries:\n  Registry.example/team: keys/team.pub\n");
  const TrustPolicy read = read_trust_policy(home.path());
  ASSERT_EQ(read.rules.size(), 1U);
  EXPECT_EQ(read.rules[0].prefix, "registry.example/team");
  EXPECT_THAT(read.rules[0].keys, ElementsAre("ABCD", "EF"));
  EXPECT_THAT(read.rules[0].from, HasSubstr("trust.yml:2:3"));
  EXPECT_THAT(public_keys_in(pem_of_public_key(std::string(124, 'a'))), ElementsAre(std::string(124, 'a')));
  // What is wrong opens no door.
  home.write("empty.pub", "no key");
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"registries: {a.example: empty.pub}", "'empty.pub' has no public key"},
           {"registries: {a.example: missing.pub}", "missing.pub"},
           {"registries: {a.example/m:1: keys/team.pub}", "'a.example/m:1' is no registry or repository"},
           {"registries: {a.example/: keys/team.pub}", "is no registry or repository"},
           {"registries: [a]", "'registries' is a list"},
           {"registry: {}", "unknown key 'registry'"},
           {"{}", "'registries' is missing"}}) {
    home.write("trust.yml", text);
    try {
      (void)read_trust_policy(home.path());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace gpux
