#include "base/durability.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

std::atomic<const DiskObserver*> disk_observer{nullptr};

// Only an observer needs the name.
fs::path path_of(int descriptor) {
  std::error_code error;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error);
}

int report(DiskOperation operation, int descriptor) {
  const DiskObserver* observer = disk_observer.load(std::memory_order_acquire);
  return observer == nullptr ? 0 : (*observer)({operation, path_of(descriptor), {}});
}

int report(DiskOperation operation, const fs::path& path, const fs::path& target) {
  const DiskObserver* observer = disk_observer.load(std::memory_order_acquire);
  return observer == nullptr ? 0 : (*observer)({operation, path, target});
}

}  // namespace

int sync_file(int descriptor) noexcept {
  if (const int error = report(DiskOperation::sync_file, descriptor); error != 0) return error;
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

int sync_file_system(int descriptor) noexcept {
  if (const int error = report(DiskOperation::sync_file_system, descriptor); error != 0) return error;
  return ::syncfs(descriptor) == 0 ? 0 : errno;
}

int sync_folder(const fs::path& folder) noexcept {
  if (const int error = report(DiskOperation::sync_folder, folder, {}); error != 0) return error;
  const UniqueFd descriptor(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) return errno == EACCES ? 0 : errno;
  return ::fsync(descriptor.get()) == 0 || errno == EINVAL ? 0 : errno;
}

int rename_file(const fs::path& from, const fs::path& to) noexcept {
  if (const int error = report(DiskOperation::rename, from, to); error != 0) return error;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

std::error_code make_folders(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return {};
  const fs::path parent = folder.parent_path();
  if (parent != folder) {
    if (const std::error_code failure = make_folders(parent)) return failure;
  }
  fs::create_directory(folder, error);
  if (error) return error;
  return {sync_folder(parent), std::generic_category()};
}

void observe_disk(const DiskObserver* observer) noexcept {
  disk_observer.store(observer, std::memory_order_release);
}

int report_write(int descriptor) noexcept {
  return report(DiskOperation::write, descriptor);
}

}  // namespace gpux
