#include "base/files.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/file_error.h"
#include "base/format_message.h"
#include "base/write_fully.h"
#include "gpux/error.h"

namespace gpux {
namespace {

struct OpenFile {
  UniqueFd descriptor;
  std::size_t size;
};

OpenFile open_for_reading(const std::filesystem::path& path) {
  // Non-blocking, so that a named pipe without a writer is refused below instead of waited for.
  UniqueFd descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) throw_file_error("open", path, errno);

  struct stat status {};

  if (::fstat(descriptor.get(), &status) != 0) throw_file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorCode::invalid_input, format_message("'{}' is a directory, not a file", file_at(path)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::invalid_input, format_message("'{}' is not a regular file", file_at(path)));
  }
  return {std::move(descriptor), static_cast<std::size_t>(status.st_size)};
}

std::filesystem::path replaceable_file(std::filesystem::path path) {
  std::error_code unreadable;
  if (std::filesystem::is_symlink(path, unreadable)) {
    if (auto behind = std::filesystem::canonical(path, unreadable); !unreadable) path = std::move(behind);
  }
  const std::filesystem::file_status status = std::filesystem::status(path, unreadable);
  if (std::filesystem::is_directory(status)) throw_file_error("write", path, EISDIR);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(ErrorCode::storage, format_message("cannot write '{}': it is not a regular file", file_at(path)));
  }
  return path;
}

}  // namespace

void throw_file_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  ErrorCode code = ErrorCode::storage;
  if (error_number == ENOENT || error_number == ENOTDIR) code = ErrorCode::not_found;
  throw FileError(code, format_message("cannot {} '{}': {}", action, file_at(path), std::strerror(error_number)),
                  error_number);
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  OpenFile file = open_for_reading(path);
  size_ = file.size;
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (mapped == MAP_FAILED) throw_file_error("map", path, errno);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  OpenFile file = open_for_reading(path);
  if (file.size > limit_bytes) {
    throw Error(ErrorCode::invalid_input,
                format_message("'{}' has {} bytes, more than the {} allowed", file_at(path), file.size, limit_bytes));
  }
  std::string content(file.size, '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::read(file.descriptor.get(), content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_file_error("read", path, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  content.resize(done);
  return content;
}

FileReplacement::FileReplacement(std::filesystem::path file, Uncommitted uncommitted)
    : file_(replaceable_file(std::move(file))), uncommitted_(uncommitted) {
  if (const std::error_code error = make_folders(file_.parent_path())) {
    throw_file_error("make the folder", file_.parent_path(), error.value());
  }
  uncommitted == Uncommitted::kept ? open_part() : create_part();
}

FileReplacement::~FileReplacement() {
  if (uncommitted_ == Uncommitted::removed) discard();
}

void FileReplacement::create_part() {
  std::string name = file_.string() + ".part.XXXXXX";
  descriptor_.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (!descriptor_) fail(errno);
  part_ = name;
  ::fchmod(descriptor_.get(), 0644);
}

void FileReplacement::open_part() {
  part_ = file_.string() + ".part";
  for (;;) {
    UniqueFd opened_part(::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!opened_part) fail(errno);
    descriptor_ = std::move(opened_part);
    if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw Error(ErrorCode::storage,
                  format_message("cannot write '{}': another process is writing it", file_at(part_)));
    }

    struct stat opened {};

    struct stat named {};

    if (::fstat(descriptor_.get(), &opened) != 0) fail(errno);
    if (!S_ISREG(opened.st_mode)) {
      throw Error(ErrorCode::storage, format_message("cannot write '{}': it is not a regular file", file_at(part_)));
    }
    size_ = static_cast<std::uint64_t>(opened.st_size);
    // Between the opening and the lock another may have committed it: then this is FILE itself.
    if (::stat(part_.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev) return;
  }
}

void FileReplacement::fail(int error_number) const {
  throw_file_error("write", uncommitted_ == Uncommitted::kept ? part_ : file_, error_number);
}

void FileReplacement::write(std::span<const std::byte> content, std::uint64_t position) {
  if (const int error = write_fully(descriptor_.get(), content, position); error != 0) fail(error);
}

void FileReplacement::cut(std::uint64_t size) {
  if (::ftruncate(descriptor_.get(), static_cast<off_t>(size)) != 0) fail(errno);
  size_ = size;
}

void FileReplacement::append(std::span<const std::byte> content) {
  write(content, size_);
  size_ += content.size();
}

void FileReplacement::overwrite_beginning(std::span<const std::byte> content) {
  write(content, 0);
}

void FileReplacement::commit_as(const std::filesystem::path& place) {
  if (const int error = sync_file(descriptor_.get()); error != 0) fail(error);
  if (const int error = rename_file(part_, place); error != 0) throw_file_error("write", place, error);
  // Only now: until the part is renamed, its lock keeps others from continuing it.
  if (const int error = descriptor_.close(); error != 0) throw_file_error("write", place, error);
}

void FileReplacement::commit() {
  commit_as(file_);
  if (const int error = sync_folder(file_.parent_path()); error != 0) throw_file_error("write", file_, error);
}

void FileReplacement::discard() noexcept {
  if (!descriptor_) return;
  ::unlink(part_.c_str());
  descriptor_.reset();
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content) {
  FileReplacement file(path);
  file.append(content);
  file.commit();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, std::as_bytes(std::span(content)));
}

}  // namespace gpux
