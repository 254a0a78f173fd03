#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_lock.h"
#include "store/blobs.h"
#include "store/package_manifest.h"
#include "store/reference.h"

namespace gpux {

class IncomingBlobs;
class LayoutIndex;

/// A file to be put into a package.
struct PackageFile {
  std::filesystem::path source;
  std::string name;  ///< relative, with '/', inside the package
};

/// A package to be stored.
struct PackageContent {
  std::string name, version, description;
  std::string model_file;  ///< the name of the ONNX file that runs
  std::string provider;    ///< the request it is built for; empty: none
  std::string precision;   ///< the precision it is built for; empty: none
  std::string shapes;      ///< that its provider compiles for; empty: none are named
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<PackageFile> files;  ///< gpux.yml under that name
  std::vector<Variant> variants;   ///< their files are among `files`
  PackageOrigin origin;
  std::optional<ComparedProvider> compared_provider = {};
};

/// A package that is in the store under a name.
struct StoredModel {
  Reference reference;
  std::string digest;   ///< digest of its manifest, which identifies it: 64 hexadecimal digits
  std::string created;  ///< when it got this name, "2025-01-31T12:00:00Z"; may be empty
  PackageManifest package;
  std::string damage;  ///< why it cannot be used; empty where it can
  /// The registry, the archive or the hub's address that it came from; empty: it was made on this machine.
  std::string pulled_from;
  std::string verified_by = {};  ///< the public key whose signature its pull has seen, as base64; empty: none

  /// The identity as people see it.
  [[nodiscard]] std::string short_id() const { return digest.substr(0, 12); }
};

struct PruneResult {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

/// The models of this user: an OCI image layout with CNCF ModelPack artifacts, and a folder "trees" where packages lie
/// as files. Any number of processes and threads may use one at a time. A process that is killed, or a full disk,
/// leaves everything stored before as it was, and scraps that prune() takes away.
/// Nothing is made by reading: a store that is not there yet is empty. Errors storage, and those named below.
class Store {
 public:
  explicit Store(std::filesystem::path root);

  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }

  /// Stores the package and gives it these names, which other packages may lose by it. Damaged files of the same
  /// content are replaced. Error invalid_config where two
  /// files have one name or a name leaves the package; errors of the files that are read.
  StoredModel add(const PackageContent& content, std::span<const Reference> names);

  /// Stores a package from elsewhere as it is, byte by byte: `manifest` is its OCI manifest. `receive_missing` brings
  /// what the store lacks into `blobs`; it is called first, and again where another process has taken something away
  /// meanwhile, as `gpux rm` of a model with the same files does. `source`: the registry or the archive, for
  /// StoredModel::pulled_from. `verified_by` is kept as there. Errors storage if decode_manifest() refuses the manifest
  /// or a file is still missing; of the function.
  StoredModel adopt(const std::string& manifest, const IncomingBlobs& blobs, std::span<const Reference> names,
                    const std::string& source, const std::function<void()>& receive_missing,
                    const std::string& verified_by = {});

  /// Whether the blob is in the store and undamaged. Reads all of it.
  [[nodiscard]] bool has(const Blob& blob) const { return blobs_.damage(blob).empty(); }

  [[nodiscard]] const BlobFolder& blobs() const noexcept { return blobs_; }

  /// The text of a stored model's manifest. Error storage.
  [[nodiscard]] std::string manifest_of(const StoredModel& model) const { return blobs_.read_text(model.digest); }

  /// Gives the package another name. Error not_found.
  StoredModel tag(const Reference& existing, const Reference& name);

  /// Takes the name away, and the package where it was its last one, also where the disk is full. Error not_found.
  StoredModel remove(const Reference& name);

  /// Takes away what no name leads to: replaced packages, what has arrived of packages that are not complete (unless
  /// somebody receives one at the moment), and scraps.
  PruneResult prune();

  /// The package of that name; empty where there is none. Error storage where it is damaged.
  [[nodiscard]] std::optional<StoredModel> find(const Reference& name) const;

  /// All names in alphabetical order, damaged packages with their `damage`.
  [[nodiscard]] std::vector<StoredModel> list() const;

  /// The folder with the package's files under their names, made now if need be: hard links to the blobs where the
  /// file system has them. The files are not to be changed.
  [[nodiscard]] std::filesystem::path materialize(const StoredModel& model) const;

  /// Verifies each file of the stored package. Returns one message per problem: "'model.onnx' has changed". Reads all
  /// files.
  [[nodiscard]] std::vector<std::string> verify(const StoredModel& model) const;

 private:
  void prepare() const;
  [[nodiscard]] FileLock lock_index() const;
  [[nodiscard]] PackageManifest store_files(const PackageContent& content) const;
  /// Moves the blobs into the store, under the lock of its content; the digest of one that is missing.
  [[nodiscard]] std::string take_in(std::span<const std::string> digests, const IncomingBlobs& blobs) const;
  [[nodiscard]] StoredModel load(StoredModel model) const;
  [[nodiscard]] std::filesystem::path tree_of(const StoredModel& model) const;
  enum class Check : unsigned char { sizes, digests };
  [[nodiscard]] bool is_laid_out(const StoredModel& model, Check check) const;
  void lay_out(const StoredModel& model, Check check) const;
  StoredModel take_name(const Reference& name);
  StoredModel remove_files_first(const Reference& name);
  PruneResult collect(const LayoutIndex& index) const;

  std::filesystem::path root_;
  std::filesystem::path scratch_;
  BlobFolder blobs_;
};

}  // namespace gpux
