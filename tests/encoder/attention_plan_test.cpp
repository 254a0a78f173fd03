#include "encoder/attention_plan.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpux_cpu::encoder {
namespace {

/// Texts by the positions of their rows, unmasked ones first.
PackedTokens packed_of(const std::vector<std::vector<std::size_t>>& unmasked,
                       const std::vector<std::vector<std::size_t>>& masked) {
  PackedTokens packed;
  packed.text_starts.push_back(0);
  for (std::size_t text = 0; text < unmasked.size(); ++text) {
    for (const auto* positions : {&unmasked[text], &masked[text]}) {
      packed.positions.insert(packed.positions.end(), positions->begin(), positions->end());
    }
    packed.unmasked_counts.push_back(unmasked[text].size());
    packed.text_starts.push_back(packed.positions.size());
  }
  return packed;
}

std::string text_of(const AttentionPlan& plan, const PackedTokens& packed) {
  std::string found;
  for (const AttentionChunk& chunk : plan.chunks) {
    found += std::to_string(chunk.text) + ":" + std::to_string(chunk.first_query) + "-" +
             std::to_string(chunk.last_query) + " of " + std::to_string(chunk.first_key) + "-" +
             std::to_string(chunk.last_key) + (chunk.all_masked ? " masked" : "");
    for (std::size_t query = chunk.first_query; query < chunk.last_query && !plan.ranges.empty() && !chunk.all_masked;
         ++query) {
      const KeyRange range = plan.ranges[packed.text_starts[chunk.text] + query];
      found += " " + std::to_string(range.first) + "-" + std::to_string(range.last);
    }
    found += "; ";
  }
  return found;
}

TEST(AttentionPlan, HasTheKeysOfEachQuery) {
  struct Row {
    const char* name;
    std::vector<std::size_t> unmasked, masked;
    AttentionScope scope;
    const char* expected;
  };

  const std::vector<Row> rows{
      {"all keys", {0, 1, 2}, {}, {}, "0:0-3 of 0-3; "},
      {"masked queries attend the unmasked", {0, 1}, {2, 3}, {}, "0:0-2 of 0-2; 0:2-4 of 0-2; "},
      {"masked queries without keys",
       {0, 1},
       {2},
       {.mask_excludes_queries = true},
       "0:0-2 of 0-2; 0:2-3 of 0-3 masked; "},
      {"no unmasked token", {}, {0, 1}, {.causal = true}, "0:0-2 of 0-2 masked; "},
      {"no token", {}, {}, {.causal = true}, ""},
      {"causal", {0, 1, 2}, {}, {.causal = true}, "0:0-3 of 0-3 0-1 0-2 0-3; "},
      {"causal, padded on the left", {2, 3}, {0, 1}, {.causal = true}, "0:0-2 of 0-2 0-1 0-2; 0:2-4 of 0-4 masked; "},
      {"window", {0, 1, 2, 3}, {}, {.window = Window{1, 1}}, "0:0-4 of 0-4 0-2 0-3 1-4 2-4; "},
      {"window of one key", {0, 1}, {}, {.window = Window{0, 0}}, "0:0-2 of 0-2 0-1 1-2; "},
      {"window beyond the text", {0, 1}, {}, {.window = Window{90, 90}}, "0:0-2 of 0-2 0-2 0-2; "},
      {"window across a hole",
       {0, 4, 5},
       {2},
       {.window = Window{1, 1}},
       "0:0-3 of 0-3 0-1 1-3 1-3; 0:3-4 of 0-4 masked; "},
      {"the keys of the queries only",
       {7, 8},
       {6},
       {.window = Window{0, 1}},
       "0:0-2 of 0-2 0-2 1-2; 0:2-3 of 0-1 0-1; "},
      {"causal window", {0, 1, 2}, {}, {.window = Window{1, 9}, .causal = true}, "0:0-3 of 0-3 0-1 0-2 1-3; "},
  };
  for (const Row& row : rows) {
    const PackedTokens packed = packed_of({row.unmasked}, {row.masked});
    EXPECT_EQ(text_of(plan_attention(packed, 0, 1, row.scope), packed), row.expected) << row.name;
  }
}

TEST(AttentionPlan, DividesLongTextsAndTakesTheKeysInReach) {
  std::vector<std::size_t> positions(queries_per_chunk + 100);
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = i;
  const PackedTokens packed = packed_of({{0}, positions}, {{}, {}});
  const AttentionPlan plan = plan_attention(packed, 1, 2, {.window = Window{10, 10}});
  ASSERT_EQ(plan.chunks.size(), 2U);
  EXPECT_EQ(plan.chunks[0], (AttentionChunk{1, 0, queries_per_chunk, 0, queries_per_chunk + 10, false}));
  EXPECT_EQ(plan.chunks[1],
            (AttentionChunk{1, queries_per_chunk, positions.size(), queries_per_chunk - 10, positions.size(), false}));
  EXPECT_EQ(plan.ranges[queries_per_chunk], (KeyRange{0, 21}));
}

}  // namespace
}  // namespace gpux_cpu::encoder
