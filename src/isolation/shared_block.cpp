#include "isolation/shared_block.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpux/error.h"

namespace gpux::isolation {
namespace {

[[noreturn]] void fail(const char* action, int error) {
  throw Error(ErrorCode::resource_exhausted,
              fmt::format("cannot {} memory that is shared with a worker process: {}", action, std::strerror(error)));
}

std::size_t size_of(int file) {
  struct stat status {};

  if (::fstat(file, &status) != 0) fail("read the size of", errno);
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

SharedBlock SharedBlock::create(std::size_t size) {
  UniqueFd file(::memfd_create("gpux-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail("create", errno);
  constexpr std::size_t step = std::size_t{64} * 1024;
  const std::size_t rounded = (size + step - 1) / step * step;
  if (::ftruncate(file.get(), static_cast<off_t>(rounded)) != 0) fail("size", errno);
  // Else the other process could take memory away that is being read here, which raises SIGBUS, or make it as large as
  // it likes: no limit counts it.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail("seal", errno);
  return SharedBlock(std::move(file));
}

SharedBlock::SharedBlock(UniqueFd file) : file_(std::move(file)) {
  map(size_of(file_.get()));
}

SharedBlock::~SharedBlock() {
  unmap();
}

SharedBlock::SharedBlock(SharedBlock&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, std::size_t{0})) {}

SharedBlock& SharedBlock::operator=(SharedBlock&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  file_ = std::move(other.file_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, std::size_t{0});
  return *this;
}

void SharedBlock::map(std::size_t size) {
  unmap();
  if (size == 0) return;
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) fail("map", errno);
  data_ = static_cast<std::byte*>(mapped);
  size_ = size;
}

void SharedBlock::unmap() noexcept {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace gpux::isolation
