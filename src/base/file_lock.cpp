#include "base/file_lock.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/storage_error.h"

namespace gpux {
namespace {

int open_lock(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw_storage_error("lock", file, errno);
  return descriptor;
}

/// False where another holds it and `operation` does not wait.
bool lock(int descriptor, int operation, const std::filesystem::path& file) {
  while (::flock(descriptor, operation) != 0) {
    const int error_number = errno;
    if (error_number == EINTR) continue;
    if (error_number == EWOULDBLOCK) return false;
    ::close(descriptor);
    throw_storage_error("lock", file, error_number);
  }
  return true;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, Mode mode) : descriptor_(open_lock(file)) {
  lock(descriptor_, mode == Mode::shared ? LOCK_SH : LOCK_EX, file);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

std::optional<FileLock> FileLock::try_exclusive(const std::filesystem::path& file) {
  const int descriptor = open_lock(file);
  if (lock(descriptor, LOCK_EX | LOCK_NB, file)) return FileLock(descriptor);
  ::close(descriptor);
  return std::nullopt;
}

}  // namespace gpux
