#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace gpux::generation {

/// Memory for rows of keys and values, whose bytes are not determined before they are written: setting them first would
/// cost as much as the copy. Movable.
class RowMemory {
 public:
  RowMemory() = default;

  /// std::bad_alloc.
  explicit RowMemory(std::size_t bytes) : memory_(std::make_unique_for_overwrite<std::byte[]>(bytes)), size_(bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {memory_.get(), size_}; }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace gpux::generation
