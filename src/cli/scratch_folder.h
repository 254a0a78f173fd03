#pragma once

#include <filesystem>

namespace gpux::cli {

/// A folder of this process alone among the system's temporary files; goes, with all in it, with the object.
class ScratchFolder {
 public:
  /// Error storage where it cannot be made.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gpux::cli
