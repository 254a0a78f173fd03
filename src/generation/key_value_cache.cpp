#include "generation/key_value_cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

// Of a slot whose tokens are written one block after another.
constexpr std::size_t populated_tokens = 256;
// Each call for pages interrupts the other processors: for less of a head it costs more than it gives.
constexpr std::size_t least_bytes = std::size_t{16} << 10;

// Down to whole pages, and up to them.
std::size_t whole_pages(std::size_t bytes) noexcept {
  return bytes / page_bytes() * page_bytes();
}

std::size_t covering_pages(std::size_t bytes) noexcept {
  return whole_pages(bytes + page_bytes() - 1);
}

// Some addresses are left to all else: libraries end the process where they get none (RLIMIT_AS).
std::shared_ptr<std::byte> reserved(std::size_t wanted) {
  constexpr std::size_t spare = std::size_t{64} << 20;
  const std::size_t bytes = covering_pages(wanted);
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
    : layout_(layout), slots_(slots), arrays_(layout.arrays), beginnings_(slots) {}

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

// In the order of for_each_head().
std::size_t KeyValueCache::number_of(std::size_t array, std::size_t head) const noexcept {
  return array * static_cast<std::size_t>(layout_.heads) + head;
}

void KeyValueCache::reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) {
  if (tokens <= capacity_) return;
  tokens = in_whole_pages(tokens);
  // All addresses first: arrays of two layouts would be no cache.
  std::vector<std::shared_ptr<std::byte>> all;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    all.push_back(reserved(std::max<std::size_t>(slots_ * slot_bytes(tokens), 1)));
  }
  const bool can_map = tokens * row_bytes() % page_bytes() == 0;
  for (std::size_t index = 0; index < arrays_.size(); ++index) {
    std::shared_ptr<std::byte>& array = arrays_[index];
    std::shared_ptr<std::byte>& larger = all[index];
    for (std::size_t slot = 0; array && slot < slots_; ++slot) {
      const Beginning& beginning = beginnings_[slot];
      for (std::size_t i = 0; i < static_cast<std::size_t>(layout_.heads); ++i) {
        std::byte* const to = larger.get() + slot * slot_bytes(tokens) + i * tokens * row_bytes();
        const std::size_t shared = can_map ? beginning.bytes : 0, bytes = sizes[slot] * row_bytes();
        if (shared > 0) beginning.rows->map(number_of(index, i), shared, to);
        if (bytes > shared) std::memcpy(to + shared, head(index, slot, i) + shared, bytes - shared);
      }
    }
    array = std::move(larger);
  }
  for (Beginning& beginning : beginnings_) {
    if (!can_map || beginning.bytes == 0) beginning = {};
    beginning.mapped = beginning.bytes;
  }
  capacity_ = tokens;
}

// Heads begin with a page then, so that slots can share theirs.
std::size_t KeyValueCache::in_whole_pages(std::size_t tokens) const noexcept {
  constexpr std::size_t most = 1024;  // tokens that are added for it
  const std::size_t step = page_bytes() / std::gcd(page_bytes(), row_bytes());
  const bool can_share = step <= most && tokens * row_bytes() >= least_bytes;
  return can_share ? (tokens + step - 1) / step * step : tokens;
}

Tensor KeyValueCache::rows(std::size_t array, std::size_t first, std::size_t count) const {
  return Tensor::borrow(
      layout_.type,
      {static_cast<std::int64_t>(count), layout_.heads, static_cast<std::int64_t>(capacity_), layout_.head_size},
      {head(array, first, 0), count * slot_bytes(capacity_)});
}

std::size_t KeyValueCache::shareable_bytes(std::size_t tokens) const noexcept {
  if (capacity_ * row_bytes() % page_bytes() != 0) return 0;  // heads would begin within pages
  const std::size_t bytes = whole_pages(tokens * row_bytes());
  return bytes < least_bytes ? 0 : bytes;
}

std::size_t KeyValueCache::share(std::size_t from, std::size_t to, std::size_t tokens) {
  const std::size_t bytes = shareable_bytes(tokens);
  if (bytes == 0) return 0;
  const std::size_t heads = number_of(arrays_.size(), 0), parts_of_slot = 2 * heads;
  Beginning& given = beginnings_[from];
  MappedParts parts;
  if (!parts.take(parts_of_slot)) return 0;
  if (given.bytes < bytes) {
    MappedParts parts_of_given;
    if (!parts_of_given.take(parts_of_slot)) return 0;
    const auto heads_of = static_cast<std::size_t>(layout_.heads);
    std::shared_ptr<SharedRows> rows = SharedRows::copy_of(
        heads, bytes, [&](std::size_t number) { return head(number / heads_of, from, number % heads_of); });
    if (!rows) return 0;
    for_each_head(
        [&](std::size_t array, std::size_t i) { rows->map(number_of(array, i), bytes, head(array, from, i)); });
    given = {std::move(rows), bytes, std::max(bytes, given.mapped), std::move(parts_of_given)};
  }
  for_each_head(
      [&](std::size_t array, std::size_t i) { given.rows->map(number_of(array, i), bytes, head(array, to, i)); });
  beginnings_[to] = {given.rows, bytes, bytes, std::move(parts)};
  return bytes;
}

void KeyValueCache::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  map_own(to, 0);
  const std::size_t shared = share(from, to, tokens), bytes = tokens * row_bytes();
  if (bytes == shared) return;
  for_each_head([&](std::size_t array, std::size_t i) {
    std::memcpy(head(array, to, i) + shared, head(array, from, i) + shared, bytes - shared);
  });
}

void KeyValueCache::exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept {
  if (beginnings_[a].bytes < beginnings_[b].bytes) {
    std::swap(a, b);
    std::swap(tokens_a, tokens_b);
  }
  // Behind what is shared.
  const std::size_t first = beginnings_[a].bytes, end_a = tokens_a * row_bytes(), end_b = tokens_b * row_bytes();
  const std::size_t both = std::max(first, std::min(end_a, end_b));
  if (first > 0) exchange_shared(a, b, end_b);
  for_each_head([&](std::size_t array, std::size_t i) {
    std::byte* const one = head(array, a, i);
    std::byte* const other = head(array, b, i);
    std::swap_ranges(one + first, one + both, other + first);
    // Only the longer one has the rest.
    if (end_a > both) std::memcpy(other + both, one + both, end_a - both);
    if (end_b > both) std::memcpy(one + both, other + both, end_b - both);
  });
  release(tokens_a > tokens_b ? a : b, std::min(tokens_a, tokens_b), std::max(tokens_a, tokens_b));
}

// Exchanges the bytes of each head that `a` has with others, which are as many as those of `b` or more, and those of
// `b` up to there. `bytes_b`: what `b` holds of each head.
void KeyValueCache::exchange_shared(std::size_t a, std::size_t b, std::size_t bytes_b) noexcept {
  Beginning &longer = beginnings_[a], &shorter = beginnings_[b];
  for_each_head([&](std::size_t array, std::size_t i) {
    std::byte* const one = head(array, a, i);
    std::byte* const other = head(array, b, i);
    const std::size_t number = number_of(array, i), own = std::min(bytes_b, longer.bytes);
    map_private(one + shorter.bytes, longer.bytes - shorter.bytes);
    if (own > shorter.bytes) std::memcpy(one + shorter.bytes, other + shorter.bytes, own - shorter.bytes);
    if (shorter.rows) shorter.rows->map(number, shorter.bytes, one);
    longer.rows->map(number, longer.bytes, other);
  });
  shorter.mapped = std::max(shorter.mapped, longer.bytes);
  std::swap(longer.rows, shorter.rows);
  std::swap(longer.bytes, shorter.bytes);
  std::swap(longer.parts, shorter.parts);
}

void KeyValueCache::map_own(std::size_t slot, std::size_t first) noexcept {
  Beginning& beginning = beginnings_[slot];
  begin_writing(slot, first / row_bytes());
  const std::size_t from = covering_pages(first);
  if (from >= beginning.mapped) return;
  for_each_head(
      [&](std::size_t array, std::size_t i) { map_private(head(array, slot, i) + from, beginning.mapped - from); });
  beginning.mapped = from;
  const std::shared_ptr<SharedRows> rows = beginning.rows;
  if (from == 0) beginning = {};
  if (!rows) return;
  // What no slot has.
  std::size_t most = from;
  for (const Beginning& other : beginnings_) {
    if (other.rows == rows) most = std::max(most, other.mapped);
  }
  rows->shrink(most);
}

// Linux gives the slot its own pages as they are written to; those of the rows stay as others have them.
void KeyValueCache::begin_writing(std::size_t slot, std::size_t first) noexcept {
  Beginning& beginning = beginnings_[slot];
  beginning.bytes = std::min(beginning.bytes, whole_pages(first * row_bytes()));
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
  begin_writing(slot, first);
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
  end = std::min(end, capacity_);
  for_each_head([&](std::size_t array, std::size_t i) {
    const auto start = reinterpret_cast<std::uintptr_t>(head(array, slot, i));
    const std::uintptr_t from = whole_pages(start + first * row_bytes());
    const std::uintptr_t to = whole_pages(start + end * row_bytes());
    if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_POPULATE_WRITE);
  });
#endif
}

void KeyValueCache::release(std::size_t slot, std::size_t first, std::size_t end) noexcept {
  map_own(slot, first * row_bytes());
  end = std::min(end, capacity_);
  if (first >= end) return;
  for_each_head([&](std::size_t array, std::size_t i) {
    const auto start = reinterpret_cast<std::uintptr_t>(head(array, slot, i));
    const std::uintptr_t from = covering_pages(start + first * row_bytes());
    const std::uintptr_t to = whole_pages(start + end * row_bytes());
    if (from < to && to - from >= least_bytes) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  });
}

}  // namespace gpux::generation
