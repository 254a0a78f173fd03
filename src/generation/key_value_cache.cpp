#include "generation/key_value_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

// Of a slot whose tokens are written one block after another.
constexpr std::size_t populated_tokens = 256;

// Some addresses are left to all else: libraries end the process where they get none (RLIMIT_AS).
std::shared_ptr<std::byte> reserved(std::size_t wanted) {
  constexpr std::size_t spare = std::size_t{64} << 20;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (wanted + page - 1) / page * page;
  void* const memory =
      ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::resource_exhausted, fmt::format("no {} bytes of addresses for keys and values", wanted));
  }
  ::munmap(static_cast<std::byte*>(memory) + bytes, spare);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* start) { ::munmap(start, bytes); }};
}

}  // namespace

std::uint64_t CacheLayout::bytes_per_token() const noexcept {
  constexpr std::uint64_t bits_of_byte = 8;
  return arrays * static_cast<std::uint64_t>(heads) * static_cast<std::uint64_t>(head_size) * bits_of(type) /
         bits_of_byte;
}

KeyValueCache::KeyValueCache(const CacheLayout& layout, std::size_t slots)
    : layout_(layout), slots_(slots), arrays_(layout.arrays) {}

std::size_t KeyValueCache::row_bytes() const noexcept {
  return layout_.bytes_per_token() / layout_.arrays / static_cast<std::size_t>(layout_.heads);
}

std::size_t KeyValueCache::slot_bytes(std::size_t capacity) const noexcept {
  return static_cast<std::size_t>(layout_.heads) * capacity * row_bytes();
}

std::byte* KeyValueCache::head(std::size_t array, std::size_t slot, std::size_t head) const noexcept {
  return arrays_[array].get() + slot * slot_bytes(capacity_) + head * capacity_ * row_bytes();
}

template <typename Work>
void KeyValueCache::for_each_head(const Work& work) const {
  for (std::size_t array = 0; array < arrays_.size(); ++array) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(layout_.heads); ++i) work(array, i);
  }
}

void KeyValueCache::reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) {
  if (tokens <= capacity_) return;
  // All addresses first: arrays of two layouts would be no cache.
  std::vector<std::shared_ptr<std::byte>> all;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    all.push_back(reserved(std::max<std::size_t>(slots_ * slot_bytes(tokens), 1)));
  }
  for (std::size_t index = 0; index < arrays_.size(); ++index) {
    std::shared_ptr<std::byte>& array = arrays_[index];
    std::shared_ptr<std::byte>& larger = all[index];
    for (std::size_t slot = 0; array && slot < slots_; ++slot) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(layout_.heads); ++i) {
        std::memcpy(larger.get() + slot * slot_bytes(tokens) + i * tokens * row_bytes(),
                    array.get() + slot * slot_bytes(capacity_) + i * capacity_ * row_bytes(),
                    sizes[slot] * row_bytes());
      }
    }
    array = std::move(larger);
  }
  capacity_ = tokens;
}

Tensor KeyValueCache::rows(std::size_t array, std::size_t first, std::size_t count) const {
  return Tensor::borrow(
      layout_.type,
      {static_cast<std::int64_t>(count), layout_.heads, static_cast<std::int64_t>(capacity_), layout_.head_size},
      {head(array, first, 0), count * slot_bytes(capacity_)});
}

void KeyValueCache::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  for_each_head([&](std::size_t array, std::size_t i) {
    std::memcpy(head(array, to, i), head(array, from, i), tokens * row_bytes());
  });
}

void KeyValueCache::exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept {
  const std::size_t shared = std::min(tokens_a, tokens_b) * row_bytes();
  for_each_head([&](std::size_t array, std::size_t i) {
    std::byte* const first = head(array, a, i);
    std::byte* const second = head(array, b, i);
    std::swap_ranges(first, first + shared, second);
    // Only the longer one has the rest.
    if (tokens_a > tokens_b) std::memcpy(second + shared, first + shared, (tokens_a - tokens_b) * row_bytes());
    if (tokens_b > tokens_a) std::memcpy(first + shared, second + shared, (tokens_b - tokens_a) * row_bytes());
  });
  release(tokens_a > tokens_b ? a : b, std::min(tokens_a, tokens_b), std::max(tokens_a, tokens_b));
}

void KeyValueCache::read(std::size_t slot, std::size_t first, std::size_t tokens, std::span<std::byte> rows) const {
  const std::size_t bytes = tokens * row_bytes();
  std::byte* to = rows.data();
  for_each_head([&](std::size_t array, std::size_t i) {
    std::memcpy(to, head(array, slot, i) + first * row_bytes(), bytes);
    to += bytes;
  });
}

void KeyValueCache::write(std::size_t slot, std::size_t first, std::size_t tokens, std::span<const std::byte> rows) {
  if (first % populated_tokens == 0) populate(slot, first, first + std::max(tokens, populated_tokens));
  const std::size_t bytes = tokens * row_bytes();
  const std::byte* from = rows.data();
  for_each_head([&](std::size_t array, std::size_t i) {
    std::memcpy(head(array, slot, i) + first * row_bytes(), from, bytes);
    from += bytes;
  });
}

// Many pages at a time cost a fraction of as many page faults. Where the system does not do it, they come one by one.
void KeyValueCache::populate(std::size_t slot, std::size_t first, std::size_t end) noexcept {
#ifdef MADV_POPULATE_WRITE
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  end = std::min(end, capacity_);
  for_each_head([&](std::size_t array, std::size_t i) {
    const auto start = reinterpret_cast<std::uintptr_t>(head(array, slot, i));
    const std::uintptr_t from = (start + first * row_bytes()) / page * page;
    const std::uintptr_t to = (start + end * row_bytes()) / page * page;
    if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_POPULATE_WRITE);
  });
#endif
}

void KeyValueCache::release(std::size_t slot, std::size_t first, std::size_t end) noexcept {
  // Each call interrupts the other processors: it costs more than a text of a small model for every head.
  constexpr std::uintptr_t least_bytes = std::uintptr_t{16} << 10;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  end = std::min(end, capacity_);
  if (first >= end) return;
  for_each_head([&](std::size_t array, std::size_t i) {
    const auto start = reinterpret_cast<std::uintptr_t>(head(array, slot, i));
    const std::uintptr_t from = (start + first * row_bytes() + page - 1) / page * page;
    const std::uintptr_t to = (start + end * row_bytes()) / page * page;
    if (from < to && to - from >= least_bytes) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  });
}

}  // namespace gpux::generation
