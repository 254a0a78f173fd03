#include "registry/oci/docker_config.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "registry/oci/access.h"

namespace gpux::oci {
namespace {

// gpux:secret
constexpr const char* config = R"({"auths": {"ghcr.io": {"auth": "Z3B1eDpzZWNyZXQ="},
  "https://old.example/v1/": {"auth": "Z3B1eDpzZWNyZXQ="}, "https://index.docker.io/v1/": {"auth": "Z3B1eDpzZWNyZXQ="},
  "token.example": {"auth": "Z3B1eDo=", "identitytoken": "it"}, "empty.example": {}, "bad.example": {"auth": "!"}},
  "credHelpers": {"helped.example": "pass"}, "other": [1, 2]})";

TEST(DockerConfig, FindsCredentials) {
  const DockerConfig read = DockerConfig::parse(config, "config");
  const Credential credential{"gpux", "secret", "", ""};
  EXPECT_EQ(read.credential_for("ghcr.io"), credential);
  EXPECT_EQ(read.credential_for("old.example"), credential);
  EXPECT_EQ(read.credential_for("docker.io"), credential);
  EXPECT_EQ(read.credential_for("token.example"), (Credential{"gpux", "", "it", ""}));
  EXPECT_EQ(read.credential_for("empty.example"), std::nullopt);
  EXPECT_EQ(read.credential_for("ghcr.io.evil.example"), std::nullopt);
  EXPECT_THROW((void)read.credential_for("bad.example"), Error);
  EXPECT_EQ(read.helper_for("helped.example"), "pass");
  EXPECT_EQ(read.helper_for("ghcr.io"), "");
  EXPECT_EQ(DockerConfig::parse(R"({"credsStore": "desktop"})", "c").helper_for("a.b"), "desktop");
  EXPECT_THROW((void)DockerConfig::parse(R"({"credsStore": "../x"})", "c").helper_for("a.b"), Error);
}

TEST(DockerConfig, ChangesOnlyWhatItMust) {
  const test::TemporaryFolder folder;
  DockerConfig changed = DockerConfig::parse(config, "config");
  changed.set("new.example:5000", {"me", "p:w", "", ""});
  EXPECT_TRUE(changed.erase("old.example"));
  EXPECT_FALSE(changed.erase("unknown.example"));
  changed.write(folder.path() / "config.json");
  const DockerConfig again = DockerConfig::read(folder.path() / "config.json");
  EXPECT_EQ(again.credential_for("new.example:5000"), (Credential{"me", "p:w", "", ""}));
  EXPECT_EQ(again.credential_for("old.example"), std::nullopt);
  EXPECT_NE(again.text().find("\"other\""), std::string::npos);
  EXPECT_EQ(std::filesystem::status(folder.path() / "config.json").permissions(), std::filesystem::perms(0600));
}

TEST(DockerConfig, RefusesWhatItCannotRead) {
  for (const char* json : {"[]", "{", R"({"auths": []})", R"({"credHelpers": "x"})", "1"}) {
    EXPECT_THROW(DockerConfig::parse(json, "config"), Error) << json;
  }
}

TEST(CredentialHelper, AnswersAreChecked) {
  EXPECT_EQ(parse_helper_answer(R"({"Username": "u", "Secret": "s"})", "h"), (Credential{"u", "s", "", ""}));
  EXPECT_EQ(parse_helper_answer(R"({"Username": "<token>", "Secret": "s"})", "h"), (Credential{"", "", "s", ""}));
  EXPECT_THROW(parse_helper_answer("credentials", "h"), Error);
  EXPECT_THROW(parse_helper_answer("{}", "h"), Error);
}

TEST(Certificates, AreThoseOfTheHost) {
  const test::TemporaryFolder folder;
  const std::vector<std::filesystem::path> folders{folder.path() / "none", folder.path()};
  EXPECT_TRUE(certificates_of("host:5000", folders).ca_file.empty());
  folder.write("host:5000/ca.crt", "x");
  EXPECT_EQ(certificates_of("host:5000", folders).ca_file, folder.path() / "host:5000/ca.crt");
  EXPECT_TRUE(certificates_of("host", folders).ca_file.empty());
  EXPECT_TRUE(certificates_of("../host:5000", folders).ca_file.empty());
  folder.write("host:5000/client.cert", "x");
  EXPECT_THROW(certificates_of("host:5000", folders), Error);
  folder.write("host:5000/client.key", "x");
  EXPECT_EQ(certificates_of("host:5000", folders).key, folder.path() / "host:5000/client.key");
  folder.write("host:5000/other.crt", "x");
  EXPECT_THROW(certificates_of("host:5000", folders), Error);
}

}  // namespace
}  // namespace gpux::oci
