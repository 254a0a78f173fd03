#pragma once

#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace gpux::isolation {

/// Memory that two processes share: a file in memory that each of them maps. It keeps its size, whatever the other
/// process does. Used by one thread of each process at a time.
class SharedBlock {
 public:
  /// A new one of at least `size` bytes, which take memory once they are written. Error resource_exhausted.
  static SharedBlock create(std::size_t size);
  /// That of another process, which sent its descriptor. Error resource_exhausted.
  explicit SharedBlock(UniqueFd file);
  ~SharedBlock();
  SharedBlock(SharedBlock&& other) noexcept;
  SharedBlock& operator=(SharedBlock&& other) noexcept;

  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }

  /// What is mapped here.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  void map(std::size_t size);
  void unmap() noexcept;

  UniqueFd file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace gpux::isolation
