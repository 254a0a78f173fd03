#pragma once

#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace gpux::runtime::isolation {

/// Memory that two processes share: a file in memory that each of them maps. It can grow and never shrinks, whatever
/// the other process does. Used by one thread of each process at a time.
class SharedBlock {
 public:
  /// A new one without memory. Error resource_exhausted.
  static SharedBlock create();
  /// That of another process, which sent its descriptor. Error resource_exhausted.
  explicit SharedBlock(UniqueFd file);
  ~SharedBlock();
  SharedBlock(SharedBlock&& other) noexcept;
  SharedBlock& operator=(SharedBlock&& other) noexcept;

  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }

  /// What is mapped here.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

  /// Grows to at least this many bytes; what bytes() gave before is no longer valid. Error resource_exhausted.
  void grow_to(std::size_t size);

  /// Maps what the other process has added. False if there are fewer than `size` bytes.
  [[nodiscard]] bool find_grown(std::size_t size);

 private:
  void map(std::size_t size);
  void unmap() noexcept;

  UniqueFd file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace gpux::runtime::isolation
