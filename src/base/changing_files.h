#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "gpux/error.h"

namespace gpux {

/// Tells the content of a file from that of another time without reading it. Two that are equal are of one content,
/// unless somebody set the times.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

/// Stamp of the file as it is now; symbolic links are followed. All zeros if there is no such file.
FileStamp stamp_of(const std::filesystem::path& file);

/// A file was changed while it was read.
class FileChanged : public Error {
 public:
  explicit FileChanged(const std::filesystem::path& file);
};

/// Files that anybody may change, which a library maps into the memory of this process. A write to such a file changes
/// what the library reads, and behind the end of one that was cut there is SIGBUS.
class ChangingFiles {
 public:
  /// Opens them; those that are not there are left out.
  explicit ChangingFiles(const std::vector<std::filesystem::path>& files);

  [[nodiscard]] bool empty() const noexcept { return files_.empty(); }

  /// Whether one is mapped now as detach() finds it.
  [[nodiscard]] bool are_mapped() const;

  /// Checks that all files are as they were at construction. Error FileChanged if one is not.
  void require_unchanged() const;

  /// Puts copies in this process's own memory in the place of what is mapped of them, privately and to be written, as
  /// ONNX Runtime does. At the same addresses: nobody notices. Nothing may map or unmap these files meanwhile.
  /// Errors FileChanged (storage), where one is not what it was when this was made; resource_exhausted.
  void detach() const;

 private:
  struct File {
    std::filesystem::path path;
    std::string resolved;  ///< without links
    UniqueFd descriptor;
    FileStamp stamp;
  };

  struct Mapping;
  static std::vector<Mapping> mappings();
  static void copy(const File& file, const Mapping& mapping);

  std::vector<File> files_;
};

}  // namespace gpux
