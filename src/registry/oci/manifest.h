#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/blobs.h"

namespace gpux::oci {

inline constexpr const char* image_manifest_type = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* image_index_type = "application/vnd.oci.image.index.v1+json";
inline constexpr const char* docker_manifest_type = "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr const char* docker_list_type = "application/vnd.docker.distribution.manifest.list.v2+json";

/// Manifests are read up to this size, as registries limit them.
inline constexpr std::uint64_t limit_manifest_bytes = std::uint64_t{4} << 20;

/// A reference to content (OCI descriptor).
struct Descriptor {
  std::string media_type, artifact_type;
  Blob blob;
  std::map<std::string, std::string> annotations;
  std::string platform;  ///< "linux/amd64"; mostly empty
};

/// An image manifest of OCI or Docker.
struct ImageManifest {
  std::string media_type, artifact_type;
  Descriptor config;
  std::vector<Descriptor> layers;
  std::optional<Descriptor> subject;

  /// config and layers, each content once.
  [[nodiscard]] std::vector<Descriptor> contents() const;
};

/// An index of OCI or a manifest list of Docker.
struct ImageIndex {
  std::vector<Descriptor> manifests;
};

enum class DocumentKind : unsigned char { manifest, index };

/// Kind of the document, by its mediaType or else its members. Errors network for other kinds and damaged ones; the
/// message begins with `name`.
DocumentKind kind_of_document(std::string_view json, const std::string& name);

ImageManifest parse_image_manifest(std::string_view json, const std::string& name);
ImageIndex parse_image_index(std::string_view json, const std::string& name);

/// The manifest of an index that is the model: the only ModelPack artifact; without one, the only manifest that is not
/// marked as an attestation. Error network that lists what is there if it is not clear.
Descriptor choose_model(const ImageIndex& index, const std::string& name);

/// "application/…" of the manifest as a registry must serve it.
std::string media_type_of(std::string_view json, const std::string& name);

}  // namespace gpux::oci
