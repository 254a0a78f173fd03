#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory_budget.h"
#include "server/http/message.h"

namespace gpux::http {

/// A body while it arrives: grows up to a limit, laid out as body_alignment and body_padding promise. Takes from the
/// budget for what has arrived and the next step, whatever size was announced.
class BodyBuffer {
 public:
  enum class Outcome : int {
    taken,
    too_large,  ///< beyond this body's own limit
    no_memory,  ///< beyond the budget, or the system has none
  };

  /// `aligned_at`: the offset of the byte that gets the alignment. `expected_bytes`: the size where it is known, else
  /// 0.
  BodyBuffer(std::shared_ptr<MemoryBudget> budget, std::size_t aligned_at, std::uint64_t limit_bytes,
             std::uint64_t expected_bytes = 0);
  ~BodyBuffer();
  BodyBuffer(const BodyBuffer&) = delete;
  BodyBuffer& operator=(const BodyBuffer&) = delete;

  /// Room for a body of `size` bytes.
  Outcome reserve(std::uint64_t size);
  /// Makes room for at least one byte more: a step of 32 KiB, or as much as there is, up to 1 MiB.
  Outcome grow();
  /// The reserved memory that is not filled yet.
  [[nodiscard]] std::span<std::byte> room() noexcept;

  /// `count` bytes of room() have been filled.
  void filled(std::size_t count) noexcept { size_ += count; }

  /// Copies into room(), which must suffice.
  void append(std::span<const std::byte> bytes) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// The body, which takes no more of the budget than its size; the buffer is empty then.
  Piece finish();

 private:
  struct Block;

  bool allocate(std::uint64_t size);

  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<Block> block_;
  std::size_t lead_;  ///< unused bytes before the body, for the alignment
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;   ///< taken from the budget
  std::size_t allocated_ = 0;  ///< of the system, which provides memory when it is touched
  std::uint64_t limit_;
  std::uint64_t expected_;
};

}  // namespace gpux::http
