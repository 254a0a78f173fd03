#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "base/unique_fd.h"

namespace gpux {

/// A lock between processes and threads on a file made for it, held until the object goes. The system drops it when
/// its process ends, however it ends.
class FileLock {
 public:
  enum class Mode : unsigned char { shared, exclusive };

  /// Waits for the lock. Error storage where the file cannot be made.
  FileLock(const std::filesystem::path& file, Mode mode);

  /// The same, and meanwhile calls `while_waiting` ten times a second, which may throw to give up.
  static FileLock exclusive(const std::filesystem::path& file, const std::function<void()>& while_waiting);

  /// Takes the exclusive lock without waiting; empty if another process or thread holds it.
  static std::optional<FileLock> try_exclusive(const std::filesystem::path& file);

 private:
  explicit FileLock(UniqueFd descriptor) noexcept : descriptor_(std::move(descriptor)) {}

  UniqueFd descriptor_;
};

}  // namespace gpux
