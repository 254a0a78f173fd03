#include "ort/block_pool.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpux::ort {
namespace {

TEST(BlockSize, IsAnEighthAboveAtMost) {
  EXPECT_EQ(block_size(0), 256U);
  EXPECT_EQ(block_size(256), 256U);
  EXPECT_EQ(block_size(1000), 1024U);
  EXPECT_EQ(block_size(1024), 1024U);
  EXPECT_EQ(block_size(1025), 1152U);
  EXPECT_EQ(block_size(400'000), 425'984U);
  EXPECT_EQ(block_size(SIZE_MAX), SIZE_MAX);
}

/// Memory that knows what of it is given out.
struct Memory {
  std::map<void*, std::size_t> blocks;
  int allocations = 0;
  bool is_full = false;

  std::shared_ptr<BlockPool> pool(BlockPool::Limits limits) {
    return std::make_shared<BlockPool>(BlockPool::Source{.allocate = [this](std::size_t bytes) -> void* {
                                                           if (is_full) return nullptr;
                                                           ++allocations;
                                                           void* const block = std::malloc(bytes);
                                                           blocks[block] = bytes;
                                                           return block;
                                                         },
                                                         .free =
                                                             [this](void* block) {
                                                               EXPECT_EQ(blocks.erase(block), 1U);
                                                               std::free(block);
                                                             }},
                                       limits);
  }
};

TEST(BlockPool, GivesBlocksAgain) {
  Memory memory;
  auto pool = memory.pool({.kept_bytes = 1 << 20, .all_bytes = 1 << 20});
  std::shared_ptr<std::byte> first = pool->take(1000);
  const std::byte* const address = first.get();
  const std::shared_ptr<std::byte> second = pool->take(1000);
  EXPECT_NE(second.get(), address);
  first.reset();
  first = pool->take(1020);  // of the same size of blocks
  EXPECT_EQ(first.get(), address);
  EXPECT_EQ(memory.allocations, 2);
  first.reset();
  EXPECT_NE(pool->take(700).get(), address);  // more than a quarter of it would be of no use
  EXPECT_EQ(memory.allocations, 3);
}

TEST(BlockPool, KeepsUpToItsLimit) {
  Memory memory;
  auto pool = memory.pool({.kept_bytes = 2048, .all_bytes = 1 << 20});
  auto a = pool->take(1024), b = pool->take(1024), c = pool->take(1024);
  const std::byte* const of_c = c.get();
  a.reset();
  b.reset();
  c.reset();  // the first that came back goes
  EXPECT_EQ(memory.blocks.size(), 2U);
  EXPECT_TRUE(memory.blocks.contains(const_cast<std::byte*>(of_c)));
  pool.reset();
  EXPECT_TRUE(memory.blocks.empty());
}

TEST(BlockPool, GivesNoMoreThanItsLimit) {
  Memory memory;
  auto pool = memory.pool({.kept_bytes = 4096, .all_bytes = 4096});
  auto a = pool->take(2048), b = pool->take(1024);
  EXPECT_EQ(pool->take(2048), nullptr);
  EXPECT_EQ(pool->take(8192), nullptr);
  b.reset();
  // What nobody uses makes room.
  EXPECT_NE(pool->take(2048), nullptr);
  EXPECT_EQ(memory.blocks.size(), 2U);
}

TEST(BlockPool, GivesUpWhatNobodyUsesBeforeItHasNoMemory) {
  Memory memory;
  auto pool = memory.pool({.kept_bytes = 1 << 20, .all_bytes = 1 << 20});
  pool->take(1024).reset();
  EXPECT_EQ(memory.blocks.size(), 1U);
  memory.is_full = true;
  EXPECT_EQ(pool->take(8192), nullptr);
  EXPECT_TRUE(memory.blocks.empty());
}

TEST(BlockPool, FreesWhatNobodyUses) {
  Memory memory;
  auto pool = memory.pool({.kept_bytes = 1 << 20, .all_bytes = 1 << 20});
  const auto used = pool->take(1024);
  EXPECT_FALSE(pool->free_kept());
  pool->take(2048).reset();
  EXPECT_TRUE(pool->free_kept());
  EXPECT_EQ(memory.blocks.size(), 1U);
}

TEST(BlockPool, LivesAsLongAsItsBlocks) {
  Memory memory;
  auto pool = memory.pool({.kept_bytes = 1 << 20, .all_bytes = 1 << 20});
  auto block = pool->take(100);
  pool.reset();
  EXPECT_EQ(memory.blocks.size(), 1U);
  block.reset();
  EXPECT_TRUE(memory.blocks.empty());
}

TEST(BlockPool, IsUsedBySeveralThreads) {
  Memory memory;
  auto pool = memory.pool({.kept_bytes = 1 << 20, .all_bytes = 1 << 20});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int turn = 0; turn < 500; ++turn) {
          const auto block = pool->take(512);
          ASSERT_NE(block, nullptr);
          *block = static_cast<std::byte>(i);
          EXPECT_EQ(*block, static_cast<std::byte>(i));
        }
      });
    }
  }
  EXPECT_LE(memory.allocations, 4);
  pool.reset();
  EXPECT_TRUE(memory.blocks.empty());
}

}  // namespace
}  // namespace gpux::ort
