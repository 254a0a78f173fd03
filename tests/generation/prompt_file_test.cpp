// The format of files with the keys and values of a prompt, and which ones are not believed.
#include "generation/prompt_file.h"

#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

using Kind = HeadExtent::Kind;
using testing::ElementsAre;

constexpr CacheLayout small{.arrays = 4, .heads = 2, .head_size = 8, .type = ElementType::float16};

StoredPrompt prompt_of(std::size_t tokens, const CacheLayout& layout = small) {
  StoredPrompt prompt{
      .identity = std::string(64, 'a'), .scope = std::string(64, 'b'), .layout = layout, .tokens = {}, .checksums = {}};
  for (std::size_t i = 0; i < tokens; ++i) prompt.tokens.push_back(static_cast<std::uint32_t>(i * 3));
  for (std::size_t i = 0; i < blocks_of(layout, tokens).size(); ++i) prompt.checksums.push_back(i + 77);
  return prompt;
}

HeadExtent extent_of(const std::vector<std::byte>& head, std::uint64_t size) {
  return head_extent(std::span(head).first(std::min(head.size(), fixed_head_bytes)), size);
}

TEST(PromptFile, IsReadAsItWasWritten) {
  for (const std::size_t tokens : {1U, 256U, 257U, 2000U}) {
    const StoredPrompt prompt = prompt_of(tokens);
    const std::vector<std::byte> head = head_of(prompt);
    EXPECT_EQ(head.size(), head_bytes(small, tokens));
    const HeadExtent expected{.kind = Kind::prompt, .bytes = head.size()};
    EXPECT_EQ(extent_of(head, file_bytes(small, tokens)), expected);
    EXPECT_EQ(read_head(head), prompt);
  }
}

TEST(PromptFile, HasBlocksThatFitInMemory) {
  struct Case {
    std::int64_t heads;
    std::size_t tokens;
  };

  // 8 KiB for each token and head.
  for (const Case& one : {Case{1, 128}, Case{2, 64}, Case{3, 32}, Case{64, 2}, Case{4096, 2}}) {
    const CacheLayout layout{.arrays = 32, .heads = one.heads, .head_size = 64, .type = ElementType::float32};
    EXPECT_EQ(tokens_per_block(layout), one.tokens) << one.heads;
  }
  EXPECT_EQ(small.bytes_per_token(), 128);
  EXPECT_THAT(blocks_of(small, 600), ElementsAre(TokenBlock{0, 256, 0, 256 * 128}, TokenBlock{256, 256, 32768, 32768},
                                                 TokenBlock{512, 88, 65536, 88 * 128}));
  EXPECT_TRUE(blocks_of(small, 0).empty());
}

TEST(PromptFile, IsDamagedWhereASizeDoesNotFit) {
  const std::vector<std::byte> head = head_of(prompt_of(300));
  const std::uint64_t size = file_bytes(small, 300);
  EXPECT_EQ(extent_of(head, size - 1).kind, Kind::damaged);
  EXPECT_EQ(extent_of(head, size + 1).kind, Kind::damaged);
  EXPECT_EQ(extent_of({head.begin(), head.begin() + 50}, 50).kind, Kind::damaged);
  EXPECT_EQ(extent_of({}, 0).kind, Kind::damaged);

  struct Case {
    std::size_t offset;
    std::uint32_t number;
    Kind kind;
  };

  const std::vector<Case> cases{{0, 0x75767778, Kind::other},  // another format
                                {8, 2, Kind::other},           // another version
                                {12, 0, Kind::damaged},        // tokens
                                {12, 299, Kind::damaged},
                                {12, 0xffffffff, Kind::damaged},
                                {16, 0, Kind::damaged},  // arrays
                                {16, 0xffffffff, Kind::damaged},
                                {20, 0, Kind::damaged},  // heads
                                {20, 0xffffffff, Kind::damaged},
                                {24, 0, Kind::damaged},  // head size
                                {24, 0xffffffff, Kind::damaged},
                                {28, 0xffffffff, Kind::damaged},  // type
                                {28, static_cast<std::uint32_t>(ElementType::string), Kind::damaged},
                                {28, static_cast<std::uint32_t>(ElementType::float32), Kind::damaged},
                                {32, 128, Kind::damaged}};  // tokens of a block
  for (const Case& one : cases) {
    std::vector<std::byte> changed = head;
    std::memcpy(changed.data() + one.offset, &one.number, sizeof one.number);
    EXPECT_EQ(extent_of(changed, size).kind, one.kind) << one.offset << ": " << one.number;
  }
}

TEST(PromptFile, IsNotBelievedWithAnotherByte) {
  std::vector<std::byte> head = head_of(prompt_of(300));
  for (std::size_t i = 0; i < head.size(); ++i) {
    head[i] ^= std::byte{16};
    EXPECT_FALSE(read_head(head).has_value()) << i;
    head[i] ^= std::byte{16};
  }
  EXPECT_TRUE(read_head(head).has_value());
}

}  // namespace
}  // namespace gpux::generation
