#include "registry/oci/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "registry/oci/push_package.h"
#include "registry/oci/registry_errors.h"
#include "registry/oci/sign_package.h"

namespace gpux::oci {
namespace {

std::string digest_of(char c) {
  return std::string(64, c);
}

std::string entry(char c, const std::string& more = "") {
  return fmt::format(R"({{"mediaType": "{}", "digest": "sha256:{}", "size": 3{}}})", image_manifest_type, digest_of(c),
                     more);
}

TEST(Manifest, ListsEachContentOnce) {
  const std::string layer = entry('b');
  const std::string text =
      fmt::format(R"({{"config": {}, "layers": [{}, {}, {}]}})", entry('a'), layer, layer, entry('c'));
  EXPECT_EQ(kind_of_document(text, "it"), DocumentKind::manifest);
  const ImageManifest manifest = parse_image_manifest(text, "it");
  EXPECT_EQ(manifest.media_type, image_manifest_type);
  EXPECT_EQ(manifest.contents().size(), 3U);
}

TEST(Manifest, RefusesWhatIsDamaged) {
  const std::string other_size = fmt::format(R"({{"digest": "sha256:{}", "size": 4}})", digest_of('a'));
  for (const std::string& text :
       {std::string("[]"), std::string("{"), std::string("{}"), fmt::format(R"({{"config": {}}})", entry('a')),
        fmt::format(R"({{"config": {}, "layers": [{}]}})", entry('a'), other_size),
        std::string(R"({"config": {"digest": "sha256:x", "size": 1}, "layers": []})"),
        fmt::format(R"({{"config": {{"digest": "sha256:{}", "size": -1}}, "layers": []}})", digest_of('a')),
        fmt::format(R"({{"config": {{"digest": "sha512:{}", "size": 1}}, "layers": []}})", digest_of('a'))}) {
    EXPECT_THROW(parse_image_manifest(text, "it"), Error) << text;
  }
  EXPECT_THROW((void)kind_of_document(R"({"mediaType": "application/vnd.docker.distribution.manifest.v1+json"})", "it"),
               Error);
}

TEST(Manifest, TheModelOfAnIndexIsTheOneThatIsClear) {
  const std::string model = R"(, "artifactType": "application/vnd.cncf.model.manifest.v1+json")";
  const std::string provenance = R"(, "platform": {"os": "unknown", "architecture": "unknown"})";

  struct Case {
    std::vector<std::string> entries;
    char chosen;  ///< 0: refused
  };

  for (const Case& one : std::vector<Case>{{{entry('a')}, 'a'},
                                           {{entry('a'), entry('b', model)}, 'b'},
                                           {{entry('a'), entry('b', provenance)}, 'a'},
                                           {{entry('a'), entry('b')}, 0},
                                           {{entry('a', model), entry('b', model)}, 0},
                                           {{entry('b', provenance)}, 0},
                                           {{}, 0}}) {
    const std::string text = fmt::format(R"({{"manifests": [{}]}})", fmt::join(one.entries, ","));
    SCOPED_TRACE(text);
    const ImageIndex index = parse_image_index(text, "it");
    if (one.chosen == 0) {
      EXPECT_THROW(choose_model(index, "it"), Error);
    } else {
      EXPECT_EQ(choose_model(index, "it").blob.digest, digest_of(one.chosen));
    }
  }
}

TEST(RegistryErrors, HaveTheirExitCodes) {
  const std::string body = R"({"errors": [{"code": "DENIED", "message": "no"}]})";
  EXPECT_EQ(error_text(body), "'DENIED: no'");
  EXPECT_EQ(error_text("<html>"), "");
  EXPECT_EQ(error_text(R"({"errors": []})"), "");
  EXPECT_EQ(error_of_status("x", 401, body).exit_code(), 11);
  EXPECT_EQ(error_of_status("x", 403, body).exit_code(), 11);
  EXPECT_EQ(error_of_status("x", 404, body).exit_code(), 7);
  EXPECT_EQ(error_of_status("x", 429, "").exit_code(), 10);
  EXPECT_EQ(error_of_status("x", 503, "").exit_code(), 10);
}

TEST(Push, MountsFromAnotherRepositoryOfTheRegistry) {
  const RemoteReference target = parse_remote_reference("h.io/a/b:1");
  const std::vector<NamedContents> models{{{"other.io/x", "1"}, {digest_of('a')}},
                                          {{"h.io/a/b", "2"}, {digest_of('a')}},
                                          {{"h.io/c", "1"}, {digest_of('b'), digest_of('a')}}};
  EXPECT_EQ(mount_source(digest_of('a'), target, models), "c");
  EXPECT_EQ(mount_source(digest_of('c'), target, models), "");
}

TEST(Referrers, TheFallbackIndexKeepsOthers) {
  const Descriptor first{image_manifest_type, "t", {digest_of('a'), 1}, {}, {}};
  const Descriptor second{image_manifest_type, "t", {digest_of('b'), 1}, {}, {}};
  const std::string one = with_referrer("", first, "");
  EXPECT_EQ(parse_image_index(one, "it").manifests.size(), 1U);
  EXPECT_EQ(with_referrer(one, first, ""), one);
  EXPECT_EQ(parse_image_index(with_referrer(one, second, ""), "it").manifests.size(), 2U);
  const std::vector<Descriptor> replaced =
      parse_image_index(with_referrer(one, second, digest_of('a')), "it").manifests;
  ASSERT_EQ(replaced.size(), 1U);
  EXPECT_EQ(replaced.front().blob.digest, digest_of('b'));
  EXPECT_THROW(with_referrer("[]", first, ""), Error);
}

}  // namespace
}  // namespace gpux::oci
