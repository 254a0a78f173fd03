#include "base/file_lock.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>

#include "base/storage_error.h"

namespace gpux {
namespace {

UniqueFd open_lock(const std::filesystem::path& file) {
  UniqueFd descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!descriptor) throw_storage_error("lock", file, errno);
  return descriptor;
}

/// False where another holds it and `operation` does not wait.
bool lock(const UniqueFd& descriptor, int operation, const std::filesystem::path& file) {
  while (::flock(descriptor.get(), operation) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return false;
    throw_storage_error("lock", file, errno);
  }
  return true;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, Mode mode) : descriptor_(open_lock(file)) {
  lock(descriptor_, mode == Mode::shared ? LOCK_SH : LOCK_EX, file);
}

FileLock FileLock::exclusive(const std::filesystem::path& file, const std::function<void()>& while_waiting) {
  constexpr std::chrono::milliseconds interval{100};
  UniqueFd descriptor = open_lock(file);
  while (!lock(descriptor, LOCK_EX | LOCK_NB, file)) {
    while_waiting();
    std::this_thread::sleep_for(interval);
  }
  return FileLock(std::move(descriptor));
}

std::optional<FileLock> FileLock::try_exclusive(const std::filesystem::path& file) {
  UniqueFd descriptor = open_lock(file);
  if (!lock(descriptor, LOCK_EX | LOCK_NB, file)) return std::nullopt;
  return FileLock(std::move(descriptor));
}

}  // namespace gpux
