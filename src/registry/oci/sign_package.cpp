#include "registry/oci/sign_package.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/files.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "gpux/error.h"

namespace gpux::oci {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* config_type = "application/vnd.oci.image.config.v1+json";

Descriptor descriptor_of(const char* type, const std::string& text) {
  return {type, {}, {sha256_of(text), text.size()}, {}, {}};
}

void upload_text(Repository& repository, const Descriptor& descriptor, const std::string& text,
                 const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / descriptor.blob.digest;
  write_file_atomically(file, text);
  repository.upload({file, descriptor.blob, {}}, [](std::int64_t) {});
}

}  // namespace

std::string with_referrer(const std::string& existing, const Descriptor& referrer, const std::string& replaced) {
  Json index = {{"schemaVersion", 2}, {"mediaType", image_index_type}, {"manifests", Json::array()}};
  if (!existing.empty()) {
    static_cast<void>(parse_image_index(existing, "the list of referrers"));
    index = parse_bounded_json<Json>(existing);
  }
  Json kept = Json::array();
  for (const Json& one : index.at("manifests")) {
    const std::string digest = one.at("digest").get<std::string>();
    if (digest != "sha256:" + referrer.blob.digest && digest != "sha256:" + replaced) kept.push_back(one);
  }
  kept.push_back({{"mediaType", referrer.media_type},
                  {"digest", "sha256:" + referrer.blob.digest},
                  {"size", referrer.blob.bytes},
                  {"artifactType", referrer.artifact_type}});
  index["manifests"] = std::move(kept);
  return index.dump();
}

void sign_package(Repository& repository, const Descriptor& subject, const SigningKey& key) {
  const std::string& digest = subject.blob.digest;
  const std::string tag = signature_tag(digest),
                    name = fmt::format("the signatures of {}@sha256:{}", repository.text(), digest);
  const std::string payload = encode_payload(repository.text(), digest);
  Descriptor layer = descriptor_of(signature_layer_type, payload);
  std::vector<Descriptor> layers;
  const std::optional<FetchedDocument> existing = repository.find_manifest(tag);
  if (existing) layers = parse_image_manifest(existing->text, name).layers;
  const VerifyingKey own = key.public_key();
  const bool is_signed = std::ranges::any_of(layers, [&](const Descriptor& one) {
    const auto signature = one.annotations.find(signature_annotation);
    return one.blob == layer.blob && signature != one.annotations.end() && own.verifies(payload, signature->second);
  });
  if (is_signed) return;
  layer.annotations[signature_annotation] = key.sign(payload);
  layers.push_back(layer);

  const std::string config = encode_signature_config(layers);
  const Descriptor config_descriptor = descriptor_of(config_type, config);
  const ScratchFolder scratch;
  upload_text(repository, layer, payload, scratch.path());
  upload_text(repository, config_descriptor, config, scratch.path());
  const std::string manifest = encode_signature_manifest(config_descriptor, layers, subject);
  if (repository.put_manifest(tag, manifest, image_manifest_type)) return;
  // The registry does not know the referrers API, whose fallback is an index that clients keep.
  Descriptor referrer = descriptor_of(image_manifest_type, manifest);
  referrer.artifact_type = signature_artifact_type;
  const std::string fallback_tag = "sha256-" + digest;
  const std::optional<FetchedDocument> listed = repository.find_manifest(fallback_tag);
  repository.put_manifest(fallback_tag,
                          with_referrer(listed ? listed->text : "", referrer, existing ? existing->digest : ""),
                          image_index_type);
}

}  // namespace gpux::oci
