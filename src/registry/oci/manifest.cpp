#include "registry/oci/manifest.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/in_quotes.h"
#include "base/json_problem.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "store/package_manifest.h"

namespace gpux::oci {
namespace {

using Json = nlohmann::json;

constexpr std::size_t limit_descriptors = 20'000;
constexpr std::string_view modelpack_config_prefix = "application/vnd.cncf.model.config.";

Error damaged(const std::string& name, std::string_view why) {
  return {ErrorCode::network, fmt::format("{} is damaged: {}", name, why)};
}

Json parse(std::string_view json, const std::string& name) {
  try {
    Json document = parse_bounded_json(json);
    if (document.is_object()) return document;
  } catch (const nlohmann::json::exception& error) {
    throw damaged(name, json_problem(error));
  } catch (const Error& error) {
    throw damaged(name, error.message());
  }
  throw damaged(name, "it is not a JSON object");
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& member(const Json& object, const char* key, Json::value_t type, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || found->type() != type) throw damaged(name, fmt::format("it has no '{}'", key));
  return *found;
}

Descriptor descriptor_of(const Json& json, const std::string& name) {
  if (!json.is_object()) throw damaged(name, "a descriptor is not an object");
  Descriptor descriptor;
  descriptor.media_type = text_of(json, "mediaType");
  descriptor.artifact_type = text_of(json, "artifactType");
  const std::string digest = text_of(json, "digest");
  if (!digest.starts_with("sha256:") || !is_digest(std::string_view(digest).substr(7))) {
    throw damaged(name, fmt::format("the digest {} is not a SHA-256", in_quotes(digest)));
  }
  const auto size = json.find("size");
  if (size == json.end() || !size->is_number_unsigned()) throw damaged(name, "a descriptor has no size");
  descriptor.blob = {digest.substr(7), size->get<std::uint64_t>()};
  if (const auto annotations = json.find("annotations"); annotations != json.end() && annotations->is_object()) {
    for (const auto& [key, value] : annotations->items()) {
      if (value.is_string()) descriptor.annotations.emplace(key, value.get<std::string>());
    }
  }
  if (const auto platform = json.find("platform"); platform != json.end() && platform->is_object()) {
    descriptor.platform = text_of(*platform, "os") + "/" + text_of(*platform, "architecture");
  }
  return descriptor;
}

std::vector<Descriptor> descriptors_of(const Json& list, const std::string& name) {
  if (list.size() > limit_descriptors) {
    throw damaged(name, fmt::format("it lists {} contents, more than {}", list.size(), limit_descriptors));
  }
  std::vector<Descriptor> descriptors;
  for (const Json& one : list) descriptors.push_back(descriptor_of(one, name));
  return descriptors;
}

bool is_model(const Descriptor& descriptor) {
  return descriptor.artifact_type == modelpack_artifact_type ||
         descriptor.artifact_type.starts_with(modelpack_config_prefix);
}

// BuildKit lists provenance beside images.
bool is_attestation(const Descriptor& descriptor) {
  return descriptor.platform == "unknown/unknown" || descriptor.annotations.contains("vnd.docker.reference.type");
}

}  // namespace

std::vector<Descriptor> ImageManifest::contents() const {
  std::vector<Descriptor> all;
  std::set<std::string_view> seen;
  const auto add = [&](const Descriptor& one) {
    if (seen.insert(one.blob.digest).second) all.push_back(one);
  };
  add(config);
  for (const Descriptor& layer : layers) add(layer);
  return all;
}

DocumentKind kind_of_document(std::string_view json, const std::string& name) {
  const Json document = parse(json, name);
  const std::string type = text_of(document, "mediaType");
  if (type == image_manifest_type || type == docker_manifest_type) return DocumentKind::manifest;
  if (type == image_index_type || type == docker_list_type) return DocumentKind::index;
  if (!type.empty()) {
    throw Error(ErrorCode::network, fmt::format("{} has the type {}; image manifests and indexes of OCI and Docker are "
                                                "supported",
                                                name, in_quotes(type)));
  }
  if (document.contains("layers") && document.contains("config") && !document.contains("manifests")) {
    return DocumentKind::manifest;
  }
  if (document.contains("manifests") && !document.contains("layers")) return DocumentKind::index;
  throw damaged(name, "it is neither an image manifest nor an index");
}

ImageManifest parse_image_manifest(std::string_view json, const std::string& name) {
  const Json document = parse(json, name);
  ImageManifest manifest;
  manifest.media_type = text_of(document, "mediaType");
  if (manifest.media_type.empty()) manifest.media_type = image_manifest_type;
  manifest.artifact_type = text_of(document, "artifactType");
  manifest.config = descriptor_of(member(document, "config", Json::value_t::object, name), name);
  manifest.layers = descriptors_of(member(document, "layers", Json::value_t::array, name), name);
  if (const auto subject = document.find("subject"); subject != document.end() && !subject->is_null()) {
    manifest.subject = descriptor_of(*subject, name);
  }
  // The same content with two sizes: one of them is wrong.
  std::map<std::string_view, std::uint64_t> sizes{{manifest.config.blob.digest, manifest.config.blob.bytes}};
  for (const Descriptor& layer : manifest.layers) {
    if (sizes.emplace(layer.blob.digest, layer.blob.bytes).first->second == layer.blob.bytes) continue;
    throw damaged(name, fmt::format("sha256:{} has two sizes", layer.blob.digest));
  }
  return manifest;
}

ImageIndex parse_image_index(std::string_view json, const std::string& name) {
  const Json document = parse(json, name);
  return {descriptors_of(member(document, "manifests", Json::value_t::array, name), name)};
}

Descriptor choose_model(const ImageIndex& index, const std::string& name) {
  std::vector<const Descriptor*> models, others;
  for (const Descriptor& one : index.manifests) {
    if (is_model(one)) {
      models.push_back(&one);
    } else if (!is_attestation(one)) {
      others.push_back(&one);
    }
  }
  const std::vector<const Descriptor*>& candidates = models.empty() ? others : models;
  if (candidates.size() == 1) return *candidates.front();
  constexpr std::size_t limit_listed = 8;
  std::vector<std::string> listed;
  for (const Descriptor* one : candidates) {
    if (listed.size() == limit_listed) break;
    std::string what = "sha256:" + one->blob.digest;
    if (!one->platform.empty()) what += " (" + one->platform + ")";
    listed.push_back(std::move(what));
  }
  const std::string found =
      listed.empty() ? "no manifest" : fmt::format("{} manifests: {}", candidates.size(), join(listed));
  throw Error(ErrorCode::network,
              fmt::format("{} is an index, and which of its manifests is the model is not clear; it "
                          "lists {}; name one by its digest",
                          name, found));
}

std::string media_type_of(std::string_view json, const std::string& name) {
  const std::string type = text_of(parse(json, name), "mediaType");
  if (!type.empty()) return type;
  return kind_of_document(json, name) == DocumentKind::manifest ? image_manifest_type : image_index_type;
}

}  // namespace gpux::oci
