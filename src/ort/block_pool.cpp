#include "ort/block_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gpux::ort {

std::size_t block_size(std::size_t bytes) noexcept {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const std::size_t step = std::bit_floor(bytes) / 8;
  const std::size_t more = (step - bytes % step) % step;
  return bytes + more < bytes ? bytes : bytes + more;
}

BlockPool::BlockPool(Source source, Limits limits) : source_(std::move(source)), limits_(limits) {}

BlockPool::~BlockPool() {
  free_kept_down_to(0);
}

std::shared_ptr<std::byte> BlockPool::take(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  Block block;
  {
    const std::scoped_lock lock(mutex_);
    block = take_kept(size);
    if (block.address == nullptr) block = allocate(size);
  }
  if (block.address == nullptr) return nullptr;
  return {block.address, [pool = shared_from_this(), block](std::byte*) { pool->give_back(block); }};
}

bool BlockPool::free_kept() noexcept {
  const std::scoped_lock lock(mutex_);
  const bool has_some = !kept_.empty();
  free_kept_down_to(0);
  return has_some;
}

BlockPool::Block BlockPool::take_kept(std::size_t bytes) noexcept {
  auto best = kept_.end();
  for (auto at = kept_.begin(); at != kept_.end(); ++at) {
    // Not one of which more than a quarter would be of no use: there may be no memory for the others then.
    if (at->bytes < bytes || at->bytes - at->bytes / 4 > bytes) continue;
    if (best == kept_.end() || at->bytes < best->bytes) best = at;
  }
  if (best == kept_.end()) return {};
  const Block block = *best;
  kept_.erase(best);
  kept_bytes_ -= block.bytes;
  return block;
}

BlockPool::Block BlockPool::allocate(std::size_t bytes) noexcept {
  if (bytes > limits_.all_bytes) return {};
  if (all_bytes_ > limits_.all_bytes - bytes) {
    const std::size_t in_use = all_bytes_ - kept_bytes_;
    if (in_use > limits_.all_bytes - bytes) return {};
    free_kept_down_to(limits_.all_bytes - bytes - in_use);
  }
  void* address = source_.allocate(bytes);
  if (address == nullptr && !kept_.empty()) {
    free_kept_down_to(0);
    address = source_.allocate(bytes);
  }
  if (address == nullptr) return {};
  all_bytes_ += bytes;
  return {static_cast<std::byte*>(address), bytes};
}

void BlockPool::free_kept_down_to(std::size_t bytes) noexcept {
  while (kept_bytes_ > bytes) {
    const Block block = kept_.front();
    kept_.pop_front();
    kept_bytes_ -= block.bytes;
    all_bytes_ -= block.bytes;
    source_.free(block.address);
  }
}

void BlockPool::give_back(Block block) noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    kept_.push_back(block);
  } catch (const std::bad_alloc&) {
    all_bytes_ -= block.bytes;
    source_.free(block.address);
    return;
  }
  kept_bytes_ += block.bytes;
  free_kept_down_to(limits_.kept_bytes);
}

}  // namespace gpux::ort
