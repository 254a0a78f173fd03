#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/options.h"
#include "store/blobs.h"
#include "store/variant.h"

namespace gpux {

inline constexpr std::string_view project_file_name = "gpux.yml";
inline constexpr const char* oci_manifest_type = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* modelpack_artifact_type = "application/vnd.cncf.model.manifest.v1+json";

/// Where a package came from.
struct PackageOrigin {
  /// An address, without its query: "https://huggingface.co/ORG/NAME", "https://host/model.onnx?…"; empty: it was made
  /// on this machine.
  std::string source;
  std::string revision;  ///< the commit
  std::string file;      ///< the file of the source that is the model; empty: all its weights, which were converted
  /// The branch, tag or commit that was asked for; empty: the default branch, or an earlier gpux stored it.
  std::string requested_revision = {};

  bool operator==(const PackageOrigin&) const = default;
};

/// A file of a package.
struct StoredFile {
  std::string name;  ///< relative, with '/', inside the package
  Blob blob;
};

/// Content of a package, from its OCI manifest.
struct PackageManifest {
  std::string name;  ///< gpux.yml's, or the file's stem
  std::string version;
  std::string description;
  std::string model_file;  ///< the ONNX file that runs
  std::string provider;    ///< the request it was built for; empty: none
  std::string precision;   ///< the precision it was built for: "int8"; empty: none
  std::string shapes;      ///< that its provider compiles for; empty: none were named
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<StoredFile> files;  ///< all of them, gpux.yml under that name
  std::vector<Variant> variants;
  PackageOrigin origin;
  std::optional<ComparedProvider> compared_provider = {};

  [[nodiscard]] const StoredFile* find(std::string_view file) const noexcept;
  [[nodiscard]] std::uint64_t total_bytes() const noexcept;
};

/// The CNCF ModelPack config object of a package, as JSON.
std::string encode_config(const PackageManifest& package);

/// The OCI image manifest of a package, as JSON with the artifact type and media types of CNCF ModelPack. The same
/// content gives the same text.
std::string encode_manifest(const PackageManifest& package, const Blob& config);

/// Reads such a manifest, from any source. Error storage that begins with `name` if it is damaged, has names
/// that leave the package, has no ONNX file that is clearly the model, or needs what gpux cannot read.
PackageManifest decode_manifest(std::string_view json, const std::string& name);

/// Digests that an OCI manifest or index refers to. Error storage where it is no JSON.
struct References {
  std::vector<std::string> blobs;
  std::vector<std::string> manifests;
};

References references_of(std::string_view json, const std::string& name);

/// Media type and artifact type of a manifest, as an index lists them.
struct ManifestTypes {
  std::string media_type = oci_manifest_type;
  std::string artifact_type = modelpack_artifact_type;  ///< empty: none

  bool operator==(const ManifestTypes&) const = default;
};

/// The types that the manifest gives itself. Error storage where it is no JSON.
ManifestTypes types_of(std::string_view json, const std::string& name);

/// Whether a file of that name stays inside the folder it is put into: relative, no '..', no empty part.
bool is_inside_package(std::string_view name) noexcept;

}  // namespace gpux
