#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace gpux {

/// Content known by its SHA-256.
struct Blob {
  std::string digest;  ///< 64 hexadecimal digits
  std::uint64_t bytes = 0;

  bool operator==(const Blob&) const = default;
};

/// The blobs/sha256 folder of an OCI image layout. A blob is there whole or not at all: it is written under
/// `scratch`, on the same file system, flushed to the disk and then renamed.
/// Thread-safe, and so between processes. Errors storage; not_found and others of the file that is read.
class BlobFolder {
 public:
  BlobFolder(std::filesystem::path folder, std::filesystem::path scratch);

  /// A blob that is there already is read, and replaced where it is damaged.
  [[nodiscard]] Blob add_file(const std::filesystem::path& file) const;
  [[nodiscard]] Blob add_text(std::string_view text) const;

  [[nodiscard]] std::filesystem::path path_of(const std::string& digest) const { return folder_ / digest; }

  /// A small blob's content, its digest checked. Error storage where it is missing, damaged or above 4 MiB.
  [[nodiscard]] std::string read_text(const std::string& digest) const;

  /// Verifies a blob. Returns the problem ("is missing", …); empty: it is intact. Reads the whole blob.
  [[nodiscard]] std::string damage(const Blob& blob) const;

  /// Makes the names written so far last through a loss of power.
  void flush() const;

 private:
  /// Whether the blob exists with its whole size. Does not read it.
  [[nodiscard]] bool has_whole(const Blob& blob) const;

  std::filesystem::path folder_;
  std::filesystem::path scratch_;
};

bool is_digest(std::string_view text) noexcept;

}  // namespace gpux
