#include "base/positioned_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/storage_error.h"

namespace gpux {

PositionedFile::PositionedFile(std::filesystem::path file) : path_(std::move(file)) {
  constexpr mode_t mode = 0644;
  descriptor_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!descriptor_) throw_file_error("write", path_, errno);
}

void PositionedFile::write(std::uint64_t position, std::span<const std::byte> content) const {
  if (const int error = report_write(descriptor_.get()); error != 0) throw_storage_error("write", path_, error);
  while (!content.empty()) {
    const ssize_t count = ::pwrite(descriptor_.get(), content.data(), content.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw_storage_error("write", path_, count == 0 ? ENOSPC : errno);
    position += static_cast<std::uint64_t>(count);
    content = content.subspan(static_cast<std::size_t>(count));
  }
}

void PositionedFile::resize(std::uint64_t bytes) const {
  if (::ftruncate(descriptor_.get(), static_cast<off_t>(bytes)) != 0) throw_storage_error("resize", path_, errno);
}

void PositionedFile::sync() const {
  if (const int error = sync_file(descriptor_.get()); error != 0) throw_storage_error("write", path_, error);
}

}  // namespace gpux
