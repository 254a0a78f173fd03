#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/unique_fd.h"

namespace gpux {

/// A file that is written in any order, by several threads at once: what a download fills. It keeps what it has.
class PositionedFile {
 public:
  /// Opens the file, or makes it. Errors storage, permission.
  explicit PositionedFile(std::filesystem::path file);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Writes `content` at `position`. Error storage, also if the disk is full.
  void write(std::uint64_t position, std::span<const std::byte> content) const;
  /// The size becomes this: longer files are cut.
  void resize(std::uint64_t bytes) const;
  /// Syncs the content written so far to the disk. Error storage.
  void sync() const;

 private:
  std::filesystem::path path_;
  UniqueFd descriptor_;
};

}  // namespace gpux
