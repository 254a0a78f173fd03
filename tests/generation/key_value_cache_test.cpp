#include "generation/key_value_cache.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "gpux/error.h"
#include "shared_parts.h"

namespace gpux::generation {
namespace {

constexpr CacheLayout layout{.arrays = 3, .heads = 2, .head_size = 4, .type = ElementType::float32};
constexpr std::size_t slots = 2, tokens = 8;

void fill(const KeyValueCache& cache) {
  for (std::size_t array = 0; array < layout.arrays; ++array) {
    Tensor rows = cache.rows(array, 0, slots);
    const std::span<float> values(const_cast<float*>(rows.as<float>().data()), rows.as<float>().size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(1000 * array + i);
  }
}

void expect_filled(const KeyValueCache& cache) {
  for (std::size_t array = 0; array < layout.arrays; ++array) {
    const Tensor rows = cache.rows(array, 0, slots);
    const auto values = rows.as<float>();
    ASSERT_EQ(values.size(), slots * 2 * tokens * 4);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(1000 * array + i)) << array;
  }
}

// Of three arrays of 60 TB at most two have addresses: those that have must not have changed.
TEST(KeyValueCache, ChangesNothingWhereItCannotGrow) {
  KeyValueCache cache(layout, slots);
  cache.reserve(tokens, {0, 0});
  fill(cache);
  for (const std::size_t bytes_of_array : {std::size_t{60} << 40U, std::size_t{120} << 40U}) {
    const std::size_t too_many = bytes_of_array / (slots * 2 * 4 * sizeof(float));
    try {
      cache.reserve(too_many, {tokens, tokens});
      FAIL() << "there are so many addresses";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    }
    EXPECT_EQ(cache.capacity(), tokens);
    expect_filled(cache);
  }
}

/// A cache of three slots, and what is in them by a plain copy of everything.
class CheckedCache {
 public:
  static constexpr CacheLayout layout{.arrays = 2, .heads = 2, .head_size = 64, .type = ElementType::float16};
  static constexpr std::size_t slots = 3, row_bytes = 128, heads = 4;  // of all arrays

  void append(std::size_t slot, std::size_t tokens) {
    Rows& own = slots_[slot];
    reserve(own.size() + tokens);
    std::vector<std::byte> given(heads * tokens * row_bytes);
    for (std::byte& one : given) one = static_cast<std::byte>(random_());
    cache_.write(slot, own.size(), tokens, given);
    const std::size_t first = own.size();
    own.resize(first + tokens);
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t head = 0; head < heads; ++head) {
        const auto* const from = given.data() + (head * tokens + token) * row_bytes;
        own[first + token].insert(own[first + token].end(), from, from + row_bytes);
      }
    }
  }

  void cut(std::size_t slot, std::size_t first) {
    cache_.release(slot, first, slots_[slot].size());
    slots_[slot].resize(first);
  }

  void copy(std::size_t from, std::size_t to, std::size_t tokens) {
    cut(to, 0);
    cache_.copy(from, to, tokens);
    slots_[to].assign(slots_[from].begin(), slots_[from].begin() + static_cast<std::ptrdiff_t>(tokens));
  }

  void exchange(std::size_t a, std::size_t b) {
    cache_.exchange(a, slots_[a].size(), b, slots_[b].size());
    slots_[a].swap(slots_[b]);
  }

  void reserve(std::size_t tokens) {
    if (tokens > cache_.capacity()) cache_.reserve(tokens, sizes());
  }

  void check() const {
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const std::size_t tokens = slots_[slot].size();
      std::vector<std::byte> got(heads * tokens * row_bytes);
      cache_.read(slot, 0, tokens, got);
      for (std::size_t token = 0; token < tokens; ++token) {
        for (std::size_t head = 0; head < heads; ++head) {
          const auto* const own = got.data() + (head * tokens + token) * row_bytes;
          ASSERT_TRUE(std::equal(own, own + row_bytes, slots_[slot][token].data() + head * row_bytes))
              << "slot " << slot << ", token " << token << ", head " << head;
        }
      }
    }
  }

  [[nodiscard]] std::size_t size(std::size_t slot) const { return slots_[slot].size(); }

  std::mt19937& random() { return random_; }

 private:
  using Rows = std::vector<std::vector<std::byte>>;

  [[nodiscard]] std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (const Rows& rows : slots_) all.push_back(rows.size());
    return all;
  }

  std::mt19937 random_{1};
  KeyValueCache cache_{layout, slots};
  std::array<Rows, slots> slots_;
};

// A beginning is there once, however many slots have it, and as long as one has it.
TEST(KeyValueCache, HasBeginningsOnce) {
  constexpr std::size_t heads = CheckedCache::heads;
  const std::size_t before = shared_parts();
  CheckedCache cache;
  cache.append(0, 300);
  EXPECT_EQ(shared_parts(), before);
  cache.copy(0, 1, 100);  // 12.5 KiB of a head
  EXPECT_EQ(shared_parts(), before);
  cache.copy(0, 1, 290);
  EXPECT_EQ(shared_parts(), before + 2 * heads);
  cache.copy(1, 2, 280);
  EXPECT_EQ(shared_parts(), before + 3 * heads);
  cache.cut(0, 0);
  cache.cut(1, 0);
  EXPECT_EQ(shared_parts(), before + heads);
  cache.check();
  cache.cut(2, 0);
  EXPECT_EQ(shared_parts(), before);
}

// What a slot writes, no other has.
TEST(KeyValueCache, KeepsSlotsApartThatBeginAlike) {
  CheckedCache cache;
  cache.append(0, 400);
  cache.copy(0, 1, 390);
  cache.append(1, 10);
  cache.append(0, 10);
  cache.check();
  cache.cut(0, 200);  // in the middle of what both have
  cache.append(0, 50);
  cache.check();
  cache.copy(1, 2, 395);  // longer than what is shared
  cache.exchange(0, 2);
  cache.check();
  cache.reserve(2000);
  cache.check();
  cache.append(1, 300);
  cache.exchange(1, 2);
  cache.check();
}

TEST(KeyValueCache, HoldsWhatWasWrittenInAnyOrderOfCalls) {
  CheckedCache cache;
  std::mt19937& random = cache.random();
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  for (int step = 0; step < 600; ++step) {
    const std::size_t slot = below(CheckedCache::slots), other = (slot + 1 + below(2)) % CheckedCache::slots;
    switch (below(4)) {
      case 0:
        if (cache.size(slot) < 1500) cache.append(slot, 1 + below(300));
        break;
      case 1:
        cache.copy(slot, other, below(cache.size(slot) + 1));
        break;
      case 2:
        cache.exchange(slot, other);
        break;
      default:
        cache.cut(slot, below(cache.size(slot) + 1));
        break;
    }
    cache.check();
    if (testing::Test::HasFatalFailure()) FAIL() << "in step " << step;
  }
}

// As in the sandbox of a worker process.
TEST(KeyValueCache, CopiesWhereThereIsNoMemoryToShare) {
  const std::size_t before = shared_parts();
  std::vector<MappedParts> taken;
  std::size_t count = 1U << 20U;
  for (taken.emplace_back(); count > 0; count /= 2) {
    while (taken.back().take(count)) {
    }
  }
  CheckedCache cache;
  cache.append(0, 300);
  cache.copy(0, 1, 300);
  cache.append(1, 10);
  EXPECT_EQ(shared_parts(), before);
  cache.check();
}

}  // namespace
}  // namespace gpux::generation
