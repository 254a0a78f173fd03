#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace gpux::ort {

/// Memory of one kind in blocks that are used again. Any thread may call; the pool is held by a shared pointer.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  struct Source {
    std::function<void*(std::size_t bytes)> allocate;  ///< null where there is none; throws nothing
    std::function<void(void*)> free;                   ///< throws nothing
  };

  struct Limits {
    std::size_t kept_bytes = 0;  ///< bytes of blocks that are kept for reuse
    std::size_t all_bytes = 0;   ///< bytes of kept blocks and of those in use
  };

  BlockPool(Source source, Limits limits);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A block of at least this size, with what was in it before; it comes back with the last copy of the pointer, which
  /// keeps the pool. Null: at the limit, or there is no memory, even without the blocks that nobody uses.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::size_t bytes);

  /// Frees the blocks that nobody uses; false: there are none.
  bool free_kept() noexcept;

 private:
  struct Block {
    std::byte* address = nullptr;
    std::size_t bytes = 0;
  };

  void give_back(Block block) noexcept;
  void free_kept_down_to(std::size_t bytes) noexcept;
  [[nodiscard]] Block take_kept(std::size_t bytes) noexcept;
  [[nodiscard]] Block allocate(std::size_t bytes) noexcept;

  Source source_;
  Limits limits_;
  std::mutex mutex_;
  std::deque<Block> kept_;  // the one that was given back first is first
  std::size_t kept_bytes_ = 0, all_bytes_ = 0;
};

/// The size of the block that is allocated for so many bytes: up to an eighth more, so that values of nearly the same
/// size use one block. Pure.
std::size_t block_size(std::size_t bytes) noexcept;

}  // namespace gpux::ort
