#include "base/partial_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/write_fully.h"
#include "gpux/error.h"

namespace gpux {

PartialFile::PartialFile(std::filesystem::path file)
    : file_(replaceable_file(std::move(file))), part_(file_.string() + ".part") {
  if (const std::error_code error = make_folders(file_.parent_path())) {
    throw_file_error("make the folder", file_.parent_path(), error.value());
  }
  try {
    open();
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PartialFile::fail(int error_number) const {
  throw_file_error("write", part_, error_number);
}

void PartialFile::open() {
  for (;;) {
    descriptor_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail(errno);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw Error(ErrorCode::storage, "cannot write '" + part_.string() + "': another process is writing it");
    }

    struct stat opened {};

    struct stat named {};

    if (::fstat(descriptor_, &opened) != 0) fail(errno);
    if (!S_ISREG(opened.st_mode)) {
      throw Error(ErrorCode::storage, "cannot write '" + part_.string() + "': it is not a regular file");
    }
    // Between the opening and the lock another may have committed it: then this is FILE itself.
    const bool same =
        ::stat(part_.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
    size_ = static_cast<std::uint64_t>(opened.st_size);
    if (same) return;
    ::close(std::exchange(descriptor_, -1));
  }
}

void PartialFile::cut(std::uint64_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail(errno);
  size_ = size;
}

void PartialFile::write(std::span<const std::byte> content, std::uint64_t position) {
  if (const int error = write_fully(descriptor_, content, position); error != 0) fail(error);
}

void PartialFile::append(std::span<const std::byte> content) {
  write(content, size_);
  size_ += content.size();
}

void PartialFile::rewrite_beginning(std::span<const std::byte> content) {
  write(content, 0);
}

void PartialFile::commit() {
  if (const int error = sync_file(descriptor_); error != 0) fail(error);
  if (const int error = rename_file(part_, file_); error != 0) throw_file_error("write", file_, error);
  if (const int error = sync_folder(file_.parent_path()); error != 0) throw_file_error("write", file_, error);
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_file_error("write", file_, errno);
}

void PartialFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::unlink(part_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace gpux
