#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "generation/shared_rows.h"
#include "gpux/tensor.h"

namespace gpux::generation {

/// Shape of the keys and values of one token: `arrays` tensors (the keys and the values of each layer), each with heads
/// rows.
struct CacheLayout {
  std::size_t arrays = 0;
  std::int64_t heads = 0, head_size = 0;
  ElementType type = ElementType::float32;

  /// Bytes of the keys and values of a token.
  [[nodiscard]] std::uint64_t bytes_per_token() const noexcept;

  bool operator==(const CacheLayout&) const = default;
};

/// The keys and values of several sequences, each in a slot: for each array [slots, heads, capacity, head_size]. Slots
/// next to each other are the rows of a batch. Memory that no token was written to is reserved, and not taken from the
/// system. Slots that begin alike have the whole pages of their beginning together, where the system allows it. Not
/// thread-safe.
class KeyValueCache {
 public:
  KeyValueCache(const CacheLayout& layout, std::size_t slots);

  /// Positions of a slot.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  [[nodiscard]] std::size_t slots() const noexcept { return slots_; }

  /// Makes room for `tokens` in each slot. `sizes`: tokens of each slot that are kept. Addresses change.
  /// Error resource_exhausted, and nothing changed: there are no such addresses.
  void reserve(std::size_t tokens, const std::vector<std::size_t>& sizes);

  /// [count, heads, capacity, head_size], which does not own its memory: the slots from `first` on.
  [[nodiscard]] Tensor rows(std::size_t array, std::size_t first, std::size_t count) const;

  /// The first tokens of a slot, over those of another that holds none.
  void copy(std::size_t from, std::size_t to, std::size_t tokens);
  /// Exchanges two slots that hold so many tokens.
  void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept;
  /// Copies tokens of a slot to or from [arrays, heads, tokens, head_size].
  void read(std::size_t slot, std::size_t first, std::size_t tokens, std::span<std::byte> rows) const;
  void write(std::size_t slot, std::size_t first, std::size_t tokens, std::span<const std::byte> rows);
  /// Gives the memory of the tokens from `first` to before `end` back to the system, as whole pages; of a head that has
  /// less than 16 KiB of them, it stays. The slot holds no tokens behind them.
  void release(std::size_t slot, std::size_t first, std::size_t end) noexcept;
  /// To be called before anything else writes tokens from `first` on to the slot, in rows().
  void begin_writing(std::size_t slot, std::size_t first) noexcept;

 private:
  [[nodiscard]] std::size_t row_bytes() const noexcept;  // of a token in a head
  [[nodiscard]] std::size_t slot_bytes(std::size_t capacity) const noexcept;
  [[nodiscard]] std::size_t in_whole_pages(std::size_t tokens) const noexcept;
  [[nodiscard]] std::size_t number_of(std::size_t array, std::size_t head) const noexcept;
  [[nodiscard]] std::byte* head(std::size_t array, std::size_t slot, std::size_t head) const noexcept;
  /// How many bytes of each head of so many tokens are shared: whole pages.
  [[nodiscard]] std::size_t shareable_bytes(std::size_t tokens) const noexcept;
  /// The bytes of each head that both slots have together then.
  std::size_t share(std::size_t from, std::size_t to, std::size_t tokens);
  /// The slot has memory of its own from `first` on, whole pages, whatever was there.
  void map_own(std::size_t slot, std::size_t first) noexcept;
  void exchange_shared(std::size_t a, std::size_t b, std::size_t bytes_b) noexcept;
  void populate(std::size_t slot, std::size_t first, std::size_t end) noexcept;
  template <typename Work>
  void for_each_head(const Work& work) const;

  /// The beginning that a slot has with others.
  struct Beginning {
    std::shared_ptr<SharedRows> rows;
    std::size_t bytes = 0;   ///< of each head, as they are in `rows`: whole pages
    std::size_t mapped = 0;  ///< behind these no pages of rows are mapped; those before may have been written to
    MappedParts parts;
  };

  CacheLayout layout_;
  std::size_t slots_, capacity_ = 0;
  std::vector<std::shared_ptr<std::byte>> arrays_;
  std::vector<Beginning> beginnings_;  // by slot
};

}  // namespace gpux::generation
