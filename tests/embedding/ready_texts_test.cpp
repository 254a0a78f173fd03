#include "embedding/ready_texts.h"

#include <chrono>

#include <gmock/gmock.h>

namespace gpux::embedding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ReadyText text(std::uint64_t index, std::size_t length) {
  ReadyText made{.index = index, .text = std::to_string(index), .prepared = {}};
  made.prepared.length = length;
  return made;
}

ReadyTexts texts_of(const std::vector<std::size_t>& lengths) {
  ReadyTexts ready;
  // Threads that tokenize add theirs in any order.
  for (std::size_t i = lengths.size(); i-- > 0;) ready.add(text(i, lengths[i]));
  return ready;
}

std::vector<std::uint64_t> taken(ReadyTexts& ready, const TextSharing& batching) {
  std::vector<std::uint64_t> indices;
  for (const ReadyText& one : ready.take(batching)) {
    EXPECT_EQ(one.text, std::to_string(one.index));
    indices.push_back(one.index);
  }
  return indices;
}

TextSharing alone() {
  return {.limits = {.max_rows = 1}, .padding = nullptr};
}

TextSharing of_one_length(std::int64_t rows, std::int64_t cost = 0) {
  return {.limits = {.max_rows = rows, .max_cost = cost}, .padding = nullptr};
}

TextSharing padded(std::int64_t rows, std::int64_t cost, bool counts_padding) {
  return {.limits = {.max_rows = rows, .max_cost = cost, .counts_padding = counts_padding},
          .padding = std::make_shared<const runtime::Padding>()};
}

TEST(ReadyTexts, AreTakenOneByOneInTheirOrder) {
  ReadyTexts ready = texts_of({5, 3, 5});
  EXPECT_EQ(ready.size(), 3U);
  EXPECT_THAT(taken(ready, alone()), ElementsAre(0));
  EXPECT_THAT(taken(ready, alone()), ElementsAre(1));
  EXPECT_THAT(taken(ready, alone()), ElementsAre(2));
  EXPECT_THAT(taken(ready, alone()), IsEmpty());
  EXPECT_TRUE(ready.empty());
}

TEST(ReadyTexts, ShareARunWithThoseOfTheirLength) {
  ReadyTexts ready = texts_of({5, 3, 5, 5, 3, 5});
  EXPECT_THAT(taken(ready, of_one_length(3)), ElementsAre(0, 2, 3));
  EXPECT_THAT(taken(ready, of_one_length(3)), ElementsAre(1, 4));
  EXPECT_THAT(taken(ready, of_one_length(3)), ElementsAre(5));
  ready = texts_of({5, 5, 5, 5});
  EXPECT_THAT(taken(ready, of_one_length(8, 11)), ElementsAre(0, 1)) << "11 tokens";
  EXPECT_THAT(taken(ready, of_one_length(8, 4)), ElementsAre(2)) << "one is always taken";
}

TEST(ReadyTexts, OfAnyLengthShareARunWhereFillingUpCostsNothing) {
  ReadyTexts ready = texts_of({5, 100, 3, 4});
  EXPECT_THAT(taken(ready, padded(8, 12, false)), ElementsAre(0, 2, 3)) << "a long one is passed over";
  EXPECT_THAT(taken(ready, padded(8, 12, false)), ElementsAre(1));
  ready = texts_of({1, 2, 3, 4});
  EXPECT_THAT(taken(ready, padded(2, 0, false)), ElementsAre(0, 1));
}

TEST(ReadyTexts, ShareARunWithTheNearestLengthsWhereFillingUpIsComputed) {
  ReadyTexts ready = texts_of({10, 50, 11, 8, 10, 30});
  EXPECT_THAT(taken(ready, padded(4, 0, true)), ElementsAre(0, 4, 2, 3));
  EXPECT_THAT(taken(ready, padded(4, 99, true)), ElementsAre(1)) << "two of 50 would be 100";
  EXPECT_THAT(taken(ready, padded(4, 99, true)), ElementsAre(5));
}

TEST(ReadyTexts, BehindOneThatFailedAreDropped) {
  ReadyTexts ready = texts_of({5, 3, 5, 4});
  ready.drop_behind(1);
  EXPECT_EQ(ready.size(), 2U);
  EXPECT_THAT(taken(ready, of_one_length(8)), ElementsAre(0));
  EXPECT_THAT(taken(ready, of_one_length(8)), ElementsAre(1));
}

// All are taken once, whatever the limits.
TEST(ReadyTexts, AreEachTakenOnce) {
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < 3000; ++i) lengths.push_back(1 + i * 2654435761U % 97);
  for (const TextSharing& batching : {alone(), of_one_length(32, 512), padded(32, 512, true), padded(32, 512, false)}) {
    ReadyTexts ready = texts_of(lengths);
    std::vector<bool> seen(lengths.size());
    while (!ready.empty()) {
      std::int64_t sum = 0, longest = 0;
      const std::vector<ReadyText> group = ready.take(batching);
      ASSERT_FALSE(group.empty());
      EXPECT_EQ(std::find(seen.begin(), seen.end(), false) - seen.begin(), static_cast<std::ptrdiff_t>(group[0].index))
          << "the oldest is first";
      for (const ReadyText& one : group) {
        EXPECT_FALSE(seen[one.index]);
        seen[one.index] = true;
        sum += static_cast<std::int64_t>(one.prepared.length);
        longest = std::max(longest, static_cast<std::int64_t>(one.prepared.length));
      }
      const auto rows = static_cast<std::int64_t>(group.size());
      EXPECT_LE(rows, batching.limits.max_rows);
      if (batching.limits.max_cost != 0) {
        EXPECT_LE(batching.limits.counts_padding ? rows * longest : sum, batching.limits.max_cost);
      }
    }
    EXPECT_TRUE(std::ranges::all_of(seen, std::identity()));
  }
}

}  // namespace
}  // namespace gpux::embedding
