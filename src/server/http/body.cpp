#include "server/http/body.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gpux::http {

/// Memory and its share of the budget, for as long as anybody borrows from it.
struct BodyBuffer::Block {
  Block(std::shared_ptr<MemoryBudget> from, std::uint64_t counted_bytes, std::size_t allocated)
      : budget(std::move(from)),
        counted(counted_bytes),
        memory(static_cast<std::byte*>(std::aligned_alloc(body_alignment, allocated))) {}

  ~Block() {
    std::free(memory);
    budget->give_back(counted);
  }

  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::shared_ptr<MemoryBudget> budget;
  std::uint64_t counted;
  std::byte* memory;
};

BodyBuffer::BodyBuffer(std::shared_ptr<MemoryBudget> budget, std::size_t aligned_at, std::uint64_t limit_bytes)
    : budget_(std::move(budget)),
      lead_((body_alignment - aligned_at % body_alignment) % body_alignment),
      limit_(limit_bytes) {}

BodyBuffer::~BodyBuffer() = default;

BodyBuffer::Outcome BodyBuffer::reserve(std::uint64_t size) {
  if (size > limit_) return Outcome::too_large;
  if (!budget_->take(size)) return Outcome::no_memory;
  const std::size_t needed = lead_ + size + body_padding;
  const std::size_t allocated = (needed + body_alignment - 1) / body_alignment * body_alignment;
  auto block = std::make_shared<Block>(budget_, size, allocated);
  if (block->memory == nullptr) return Outcome::no_memory;
  if (size_ > 0) std::memcpy(block->memory + lead_, block_->memory + lead_, size_);
  block_ = std::move(block);
  capacity_ = size;
  return Outcome::taken;
}

BodyBuffer::Outcome BodyBuffer::grow() {
  constexpr std::uint64_t first = 16 << 10;
  if (size_ < capacity_) return Outcome::taken;
  if (capacity_ >= limit_) return Outcome::too_large;
  return reserve(std::clamp<std::uint64_t>(std::uint64_t{2} * capacity_, std::min(first, limit_), limit_));
}

std::span<std::byte> BodyBuffer::room() noexcept {
  if (!block_) return {};
  return {block_->memory + lead_ + size_, capacity_ - size_};
}

void BodyBuffer::append(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return;
  std::memcpy(room().data(), bytes.data(), bytes.size());
  size_ += bytes.size();
}

Piece BodyBuffer::finish() {
  if (!block_) return {};
  std::byte* const begin = block_->memory + lead_;
  std::memset(begin + size_, 0, body_padding);
  Piece body{{begin, size_}, std::move(block_)};
  size_ = 0;
  capacity_ = 0;
  return body;
}

}  // namespace gpux::http
