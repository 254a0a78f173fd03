#include "generation/key_value_cache.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

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

constexpr CacheLayout small{.arrays = 2, .heads = 2, .head_size = 64, .type = ElementType::float16};
// Rows that no page has a whole number of.
constexpr CacheLayout odd{.arrays = 2, .heads = 2, .head_size = 102, .type = ElementType::int8};

/// A cache of three slots, and what is in them by a plain copy of everything.
class CheckedCache {
 public:
  static constexpr std::size_t slots = 3, heads = 4;  // of all arrays

  explicit CheckedCache(const CacheLayout& layout = small)
      : row_bytes_(layout.bytes_per_token() / heads), cache_(layout, slots) {}

  void append(std::size_t slot, std::size_t tokens) {
    const std::size_t first = slots_[slot].size();
    reserve(first + tokens);
    const std::vector<std::byte> given = rows_for(slot, tokens);
    cache_.write(slot, first, tokens, given);
  }

  /// As a run of the model does it.
  void run(std::size_t slot, std::size_t tokens) {
    const std::size_t first = slots_[slot].size();
    reserve(first + tokens);
    const std::vector<std::byte> given = rows_for(slot, tokens);
    cache_.begin_writing(slot, first);
    for (std::size_t head = 0; head < heads; ++head) {
      const Tensor rows = cache_.rows(head / 2, slot, 1);
      auto* const to = const_cast<std::byte*>(rows.bytes().data());
      std::copy_n(given.data() + head * tokens * row_bytes_, tokens * row_bytes_,
                  to + (head % 2 * cache_.capacity() + first) * row_bytes_);
    }
  }

  void cut(std::size_t slot, std::size_t first) {
    cache_.release(slot, first, slots_[slot].size());
    slots_[slot].resize(first);
  }

  /// Nobody says that the slot holds less: the next that is written says it.
  void forget(std::size_t slot, std::size_t first) { slots_[slot].resize(first); }

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
      if (tokens == 0) continue;
      std::vector<std::byte> got(heads * tokens * row_bytes_);
      cache_.read(slot, 0, tokens, got);
      for (std::size_t token = 0; token < tokens; ++token) {
        for (std::size_t head = 0; head < heads; ++head) {
          const auto* const own = got.data() + (head * tokens + token) * row_bytes_;
          ASSERT_TRUE(std::equal(own, own + row_bytes_, slots_[slot][token].data() + head * row_bytes_))
              << "slot " << slot << ", token " << token << ", head " << head;
        }
      }
    }
  }

  [[nodiscard]] std::size_t size(std::size_t slot) const { return slots_[slot].size(); }

  std::mt19937& random() { return random_; }

 private:
  using Rows = std::vector<std::vector<std::byte>>;

  // [heads, tokens], which the slot holds from now on.
  std::vector<std::byte> rows_for(std::size_t slot, std::size_t tokens) {
    std::vector<std::byte> given(heads * tokens * row_bytes_);
    for (std::byte& one : given) one = static_cast<std::byte>(random_());
    Rows& own = slots_[slot];
    const std::size_t first = own.size();
    own.resize(first + tokens);
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t head = 0; head < heads; ++head) {
        const auto* const from = given.data() + (head * tokens + token) * row_bytes_;
        own[first + token].insert(own[first + token].end(), from, from + row_bytes_);
      }
    }
    return given;
  }

  [[nodiscard]] std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (const Rows& rows : slots_) all.push_back(rows.size());
    return all;
  }

  std::size_t row_bytes_;
  std::mt19937 random_{1};
  KeyValueCache cache_;
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

// Blocks of a file may begin before what is missing, and a slot may be written anew after a failure.
TEST(KeyValueCache, KeepsSlotsApartWhereTheyAreWrittenAgain) {
  for (const bool by_run : {false, true}) {
    CheckedCache cache;
    cache.append(0, 400);
    cache.copy(0, 1, 390);
    cache.forget(1, 250);
    if (by_run) {
      cache.run(1, 150);
    } else {
      cache.append(1, 150);
    }
    cache.check();
    cache.copy(1, 2, 400);
    cache.check();
    cache.exchange(1, 2);
    cache.exchange(0, 1);
    cache.check();
  }
}

// Bytes that the files of pages take.
std::size_t shared_bytes() {
  std::size_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat status {};

    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error || target.find("gpux-rows") == std::string::npos || ::stat(entry.path().c_str(), &status) != 0) continue;
    sum += static_cast<std::size_t>(status.st_blocks) * 512;
  }
  return sum;
}

// Of a long beginning what one slot still has, however short.
TEST(KeyValueCache, GivesBackWhatNoSlotHas) {
  CheckedCache cache;
  cache.append(0, 2000);
  cache.copy(0, 1, 1900);
  cache.copy(0, 2, 1800);
  EXPECT_EQ(shared_bytes(), CheckedCache::heads * (1900 * 128 / page_bytes() * page_bytes()));
  cache.cut(1, 20);  // within a page
  cache.check();
  cache.cut(0, 0);
  cache.check();
  cache.cut(2, 300);
  cache.check();
  const std::size_t pages = (300 * 128 + page_bytes() - 1) / page_bytes();
  EXPECT_EQ(shared_bytes(), CheckedCache::heads * pages * page_bytes());
  cache.append(0, 100);
  cache.copy(2, 0, 290);
  cache.append(1, 400);
  cache.check();
}

// From a capacity of whole pages to one whose heads begin within pages.
TEST(KeyValueCache, GrowsWhereRowsDoNotDividePages) {
  CheckedCache cache(odd);
  cache.reserve(2048);
  cache.append(0, 1500);
  cache.copy(0, 1, 1500);
  cache.copy(1, 2, 1400);
  for (const std::size_t tokens : {3001, 4096, 8191}) {
    cache.reserve(tokens);
    cache.run(1, 10);
    cache.copy(1, 0, 1450);
    cache.check();
  }
}

class CachesOf : public testing::TestWithParam<const CacheLayout*> {};

INSTANTIATE_TEST_SUITE_P(Rows, CachesOf, testing::Values(&small, &odd));

TEST_P(CachesOf, HoldWhatWasWrittenInAnyOrderOfCalls) {
  CheckedCache cache(*GetParam());
  std::mt19937& random = cache.random();
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  for (int step = 0; step < 600; ++step) {
    const std::size_t slot = below(CheckedCache::slots), other = (slot + 1 + below(2)) % CheckedCache::slots;
    switch (below(5)) {
      case 0:
        if (cache.size(slot) < 1500) cache.append(slot, 1 + below(300));
        break;
      case 4:
        cache.forget(slot, below(cache.size(slot) + 1));
        cache.run(slot, 1 + below(300));
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
