#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/file_lock.h"
#include "store/store.h"

namespace gpux {

/// The folder "downloads" of a store, with what is downloaded and not stored yet. It is there while the object exists:
/// prune() clears it when nobody uses it.
class DownloadFolder {
 public:
  /// Makes the folder. Error storage.
  explicit DownloadFolder(const std::filesystem::path& root);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Removes files that have become a part of a package. What cannot be removed stays for prune().
  void remove(std::span<const std::string> names) const noexcept;

 private:
  FileLock lock_;
  std::filesystem::path path_;
};

/// Removes the folder's content unless it is in use. Error storage.
PruneResult prune_downloads(const std::filesystem::path& root);

}  // namespace gpux
