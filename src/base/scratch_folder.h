#pragma once

#include <filesystem>
#include <string>

#include "base/unique_fd.h"

namespace gpux {

/// A folder of this process alone. It goes, with all in it, with the object. What a process that was killed left is
/// removed when the next folder is made beside it. Error storage where it cannot be made.
class ScratchFolder {
 public:
  /// Among the system's temporary files.
  ScratchFolder();
  /// PLACE.gpux-XXXXXX, on the file system of `place`, whose parent folders are made.
  explicit ScratchFolder(std::filesystem::path place);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Renames what was made in the folder; never a part of it while a signal ends the process. 0, or errno's number.
  [[nodiscard]] int move_out(const std::filesystem::path& from, const std::filesystem::path& to) const;

 private:
  void make(const std::filesystem::path& parent, const std::string& prefix);

  std::filesystem::path path_;
  UniqueFd lock_;
};

/// For a signal handler that would end the process: removes the scratch folders on another thread, which then ends the
/// process with this code. False where there are none, or where it was called before: the caller ends the process.
bool end_without_scratch_folders(int exit_code) noexcept;

}  // namespace gpux
