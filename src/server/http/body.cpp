#include "server/http/body.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>

namespace gpux::http {

namespace {

constexpr std::uint64_t first_step = 32 << 10;
constexpr std::uint64_t largest_step = 1 << 20;
/// Larger blocks are mapped: they grow without a copy.
constexpr std::uint64_t mapped_from = 32 << 20;

}  // namespace

/// Memory and its share of the budget, for as long as anybody borrows from it.
struct BodyBuffer::Block {
  explicit Block(std::shared_ptr<MemoryBudget> budget) : share(std::move(budget)) {}

  ~Block() {
    if (is_mapped) {
      ::munmap(memory, bytes);
    } else {
      std::free(memory);
    }
  }

  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Keeps the first `used` bytes. False, and unchanged, where the system has no memory.
  bool resize(std::size_t wanted, std::size_t used) {
    const bool to_be_mapped = wanted >= mapped_from;
    void* made = nullptr;
    if (is_mapped) {
      made = ::mremap(memory, bytes, wanted, MREMAP_MAYMOVE);
    } else if (to_be_mapped) {
      made = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
      made = std::aligned_alloc(body_alignment, wanted);
    }
    if (made == nullptr || made == MAP_FAILED) return false;
    if (!is_mapped && memory != nullptr) {
      std::memcpy(made, memory, used);
      std::free(memory);
    }
    memory = static_cast<std::byte*>(made);
    bytes = wanted;
    is_mapped = to_be_mapped;
    return true;
  }

  MemoryShare share;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  bool is_mapped = false;
};

BodyBuffer::BodyBuffer(std::shared_ptr<MemoryBudget> budget, std::size_t aligned_at, std::uint64_t limit_bytes,
                       std::uint64_t expected_bytes)
    : budget_(std::move(budget)),
      lead_((body_alignment - aligned_at % body_alignment) % body_alignment),
      limit_(limit_bytes),
      expected_(expected_bytes) {}

BodyBuffer::~BodyBuffer() = default;

BodyBuffer::Outcome BodyBuffer::reserve(std::uint64_t size) {
  if (size > limit_) return Outcome::too_large;
  if (!block_) block_ = std::make_shared<Block>(budget_);
  if (!block_->share.resize(size)) return Outcome::no_memory;
  if (size > allocated_ && !allocate(size)) {
    (void)block_->share.resize(capacity_);
    return Outcome::no_memory;
  }
  capacity_ = size;
  return Outcome::taken;
}

bool BodyBuffer::allocate(std::uint64_t size) {
  // A size that was announced saves copies, but only so much is believed before it arrives.
  std::uint64_t wanted = std::max(size, std::min<std::uint64_t>(2 * std::uint64_t{allocated_}, limit_));
  if (expected_ >= size) wanted = std::clamp(wanted, std::min(expected_, mapped_from), expected_);
  const std::size_t needed = lead_ + wanted + body_padding;
  const std::size_t bytes = (needed + body_alignment - 1) / body_alignment * body_alignment;
  if (!block_->resize(bytes, lead_ + size_)) return false;
  allocated_ = wanted;
  return true;
}

BodyBuffer::Outcome BodyBuffer::grow() {
  if (size_ < capacity_) return Outcome::taken;
  if (capacity_ >= limit_) return Outcome::too_large;
  const std::uint64_t most = expected_ > capacity_ ? std::min(expected_, limit_) : limit_;
  return reserve(std::min(most, capacity_ + std::clamp<std::uint64_t>(capacity_, first_step, largest_step)));
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
  if (!block_ || block_->memory == nullptr) return {};
  std::byte* const begin = block_->memory + lead_;
  std::memset(begin + size_, 0, body_padding);
  (void)block_->share.resize(size_);
  Piece body{{begin, size_}, std::move(block_)};
  size_ = 0;
  capacity_ = 0;
  allocated_ = 0;
  return body;
}

}  // namespace gpux::http
