#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory_budget.h"
#include "server/http/message.h"

namespace gpux::http {

/// A body while it arrives: grows up to a limit, laid out as body_alignment and body_padding promise.
class BodyBuffer {
 public:
  enum class Outcome : int {
    taken,
    too_large,  ///< beyond this body's own limit
    no_memory,  ///< beyond the budget, or the system has none
  };

  /// `aligned_at`: the offset of the byte that gets the alignment.
  BodyBuffer(std::shared_ptr<MemoryBudget> budget, std::size_t aligned_at, std::uint64_t limit_bytes);
  ~BodyBuffer();
  BodyBuffer(const BodyBuffer&) = delete;
  BodyBuffer& operator=(const BodyBuffer&) = delete;

  /// Room for a body of `size` bytes, for one whose size is known.
  Outcome reserve(std::uint64_t size);
  /// Makes room for at least one byte more, for one whose size is not.
  Outcome grow();
  /// What is reserved and not yet filled.
  [[nodiscard]] std::span<std::byte> room() noexcept;

  /// `count` bytes of room() have been filled.
  void filled(std::size_t count) noexcept { size_ += count; }

  /// Copies into room(), which must suffice.
  void append(std::span<const std::byte> bytes) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// The body; the buffer is empty then.
  Piece finish();

 private:
  struct Block;

  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<Block> block_;
  std::size_t lead_;  ///< unused bytes before the body, for the alignment
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::uint64_t limit_;
};

}  // namespace gpux::http
