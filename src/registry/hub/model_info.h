#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::registry {

/// A file of a repository on the hub.
struct HubFile {
  std::string name;  ///< relative, with '/'; stays inside a folder
  std::uint64_t bytes = 0;
  std::string sha256;  ///< SHA-256 of its content, 64 hexadecimal digits, if it is stored as a large file; else empty
  std::string git_blob_id;  ///< git's id of its content, 40 hexadecimal digits, where it is not; else empty

  /// Identifier of the content: the SHA-256 if there is one, else the git blob id.
  [[nodiscard]] const std::string& content_id() const noexcept { return sha256.empty() ? git_blob_id : sha256; }
};

/// The hub's description of a repository.
struct HubModelInfo {
  std::string repository;  ///< "ORG/NAME", in its spelling of today
  std::string commit;      ///< 40 hexadecimal digits
  std::string task;        ///< "sentence-similarity"; may be empty
  std::string library;     ///< "sentence-transformers"; may be empty
  std::string license, last_modified;
  std::uint64_t downloads = 0, likes = 0;
  bool is_private = false;
  std::string gated;  ///< "auto", "manual"; empty: it is not
  std::vector<std::string> tags;
  std::vector<HubFile> files;  ///< sorted by name; empty in the results of a search

  /// The file of that name; null where there is none. In logarithmic time.
  [[nodiscard]] const HubFile* find(std::string_view file) const noexcept;
};

/// Reads the answer of /api/models/ORG/NAME/revision/REVISION?blobs=true. Error network for what is no such answer:
/// malformed JSON, no commit, more than 100,000 files, names that leave the folder, sizes or digests that are none.
HubModelInfo parse_model_info(std::string_view json);

/// Reads the answer of /api/models?search=…. Error network.
std::vector<HubModelInfo> parse_search_results(std::string_view json);

}  // namespace gpux::registry
