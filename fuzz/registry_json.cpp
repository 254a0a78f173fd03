// What registries, token servers, credential helpers and Docker's config.json say. The first byte chooses the reader.
#include <string>

#include "fuzzer.h"
#include "registry/oci/docker_config.h"
#include "registry/oci/manifest.h"
#include "registry/oci/registry_errors.h"
#include "registry/oci/sign_package.h"
#include "registry/oci/signature.h"
#include "registry/oci/token.h"

namespace gpux::fuzz {
namespace {

using namespace gpux::oci;

void read_document(std::string_view json) {
  if (kind_of_document(json, "it") == DocumentKind::index) {
    const ImageIndex index = parse_image_index(json, "it");
    const Descriptor referrer{image_manifest_type, "t", {std::string(64, 'a'), 1}, {}, {}};
    const std::string with = with_referrer(std::string(json), referrer, "");
    require(!must_succeed("the index with a referrer", [&] { return parse_image_index(with, "it"); }).manifests.empty(),
            "a referrer that was added is not there");
    static_cast<void>(choose_model(index, "it"));
    return;
  }
  const ImageManifest manifest = parse_image_manifest(json, "it");
  for (const Descriptor& one : manifest.contents()) require(is_digest(one.blob.digest), "a digest that is none");
  static_cast<void>(media_type_of(json, "it"));
}

void read_config(std::string_view json) {
  DockerConfig config = DockerConfig::parse(json, "it");
  const Credential credential{"user", "pass:word", {}, {}};
  config.set("host.example:5000", credential);
  const std::string text = config.text();
  const DockerConfig again = must_succeed("the written configuration", [&] { return DockerConfig::parse(text, "it"); });
  require(again.credential_for("host.example:5000") == credential, "a credential reads back as another");
  static_cast<void>(config.helper_for("ghcr.io"));
  static_cast<void>(config.credential_for("ghcr.io"));
  static_cast<void>(config.credential_for("docker.io"));
}

}  // namespace

void read_hostile(std::string_view input) {
  if (input.empty()) return;
  const std::string_view json = input.substr(1);
  switch (input.front()) {
    case 'm':
      return read_document(json);
    case 't': {
      const TokenAnswer answer = parse_token_answer(json);
      require(!answer.token.empty() && answer.expires_in.count() >= 0, "a token that cannot be used");
      return;
    }
    case 'c':
      return read_config(json);
    case 'h':
      static_cast<void>(parse_helper_answer(json, "helper"));
      return;
    case 's': {
      const std::string digest = digest_of_payload(json);
      require(digest.empty() || is_digest(digest), "a digest that is none");
      return;
    }
    default:
      static_cast<void>(error_text(json));
  }
}

}  // namespace gpux::fuzz
