#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/changing_files.h"

/// The result of a load, in names and values. A restarted worker must have the same.
namespace gpux::isolation {

/// Everything that a load's answers and verdict depend on, as pairs of name and value: ("ONNX Runtime", "1.30.0"). Both
/// are for messages.
using LoadedIdentity = std::vector<std::pair<std::string, std::string>>;

/// The first that differs, as "ONNX Runtime is 1.31.1, and was 1.30.0"; empty: none does. Pure.
std::string difference(const LoadedIdentity& now, const LoadedIdentity& before);

/// The content of files that anybody may change. Thread-safe.
class FileContents {
 public:
  explicit FileContents(std::vector<std::filesystem::path> files);

  /// The SHA-256 of each file. It is computed again only if the file's stamp has changed: the same bytes with a new
  /// time are no change.
  [[nodiscard]] LoadedIdentity identity();

  /// Error FileChanged where a file is not what it was when this was made, by its stamp.
  void require_unchanged() const;

 private:
  struct Content {
    FileStamp stamp;
    std::string digest;
  };

  const std::vector<std::filesystem::path> files_;
  const std::vector<FileStamp> stamps_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Content> known_;  // under the mutex
};

}  // namespace gpux::isolation
