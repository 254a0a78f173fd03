#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "base/unique_fd.h"

namespace gpux::generation {

/// The first bytes of each head of a slot, in pages that several slots map in place of memory of their own. Where a
/// slot writes, Linux gives it a page of its own (mmap(2), MAP_PRIVATE). Not thread-safe.
class SharedRows {
 public:
  /// Copies `bytes` of each head, whole pages. Null: there is no such memory, as in the sandbox of a worker process,
  /// and where files may not be so large (RLIMIT_FSIZE).
  static std::shared_ptr<SharedRows> copy_of(std::size_t heads, std::size_t bytes,
                                             const std::function<const std::byte*(std::size_t head)>& rows);

  /// Maps the first `bytes` of a head at an address of memory that the caller has mapped: whole pages.
  void map(std::size_t head, std::size_t bytes, std::byte* at) const noexcept;

  /// Gives the pages of each head behind the first `bytes`, whole pages that nobody has mapped, back to the system.
  void shrink(std::size_t bytes) noexcept;

 private:
  SharedRows(UniqueFd file, std::size_t heads, std::size_t bytes)
      : file_(std::move(file)), heads_(heads), bytes_(bytes), held_(bytes) {}

  UniqueFd file_;
  std::size_t heads_, bytes_, held_;
};

/// Bytes of a page of memory.
std::size_t page_bytes() noexcept;

/// Memory of its own, of zeros, in place of what is mapped there: whole pages.
void map_private(std::byte* at, std::size_t bytes) noexcept;

/// How many parts of the process's memory are mapped on their own: Linux limits them. One thread at a time has an
/// object; all count together.
class MappedParts {
 public:
  MappedParts() = default;

  ~MappedParts() { release(); }

  MappedParts(const MappedParts&) = delete;
  MappedParts& operator=(const MappedParts&) = delete;

  MappedParts(MappedParts&& other) noexcept : count_(std::exchange(other.count_, 0)) {}

  MappedParts& operator=(MappedParts&& other) noexcept {
    std::swap(count_, other.count_);
    return *this;
  }

  /// Counts so many; false, and nothing counted: that would be more than a quarter of what Linux allows a process.
  [[nodiscard]] bool take(std::size_t count) noexcept;
  void release() noexcept;

 private:
  std::size_t count_ = 0;
};

}  // namespace gpux::generation
