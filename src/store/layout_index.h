#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "store/blobs.h"
#include "store/package_manifest.h"
#include "store/reference.h"

namespace gpux {

/// The index.json of an OCI image layout: which manifest has which name. What others put there stays as it is.
class LayoutIndex {
 public:
  struct Entry {
    Reference reference;
    std::string digest;
    std::string created;  ///< may be empty
    ManifestTypes types;
    std::string pulled_from;  ///< a registry or an archive; empty: it was made on this machine, or pulled from the hub
    std::string verified_by;  ///< the public key whose signature a pull has seen, as base64; empty: none
  };

  /// Reads `folder`/index.json; empty where there is none. Error storage where it is damaged.
  static LayoutIndex read(const std::filesystem::path& folder);

  /// Entries with a name that parse_reference takes, in alphabetical order.
  [[nodiscard]] std::vector<Entry> entries() const;
  [[nodiscard]] std::optional<Entry> find(const Reference& reference) const;

  /// Digests of all manifests, with and without a name.
  [[nodiscard]] std::vector<std::string> digests() const;

  /// Gives the manifest this name, and takes it from the one that had it.
  void set(const Reference& reference, const Blob& manifest, const std::string& created,
           const ManifestTypes& types = {}, const std::string& pulled_from = {}, const std::string& verified_by = {});
  void remove(const Reference& reference);

  /// Over the content of `folder`/index.json, which is not shorter: takes no room on the disk, and a loss of power may
  /// leave it damaged. Error storage.
  void overwrite(const std::filesystem::path& folder) const;

  /// Replaces `folder`/index.json as a whole.
  void write(const std::filesystem::path& folder) const;

 private:
  nlohmann::ordered_json json_;
};

}  // namespace gpux
