#include "server/models/model_description.h"

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

TEST(MaxBatchTokens, IsWhatARunCanHold) {
  struct Row {
    std::int64_t rows, cost;
    bool can_batch;
    std::size_t max_tokens;
    std::optional<std::uint64_t> tokens;
  };

  const Row rows[] = {
      {32, 0, false, 512, 512},        // one text per run
      {1, 4096, true, 512, 512},       // the same
      {32, 0, true, 512, 32 * 512},    // only rows are bounded
      {32, 4096, true, 512, 4096},     // the bound on tokens is lower
      {2, 4096, true, 512, 1024},      // the bound on rows is lower
      {32, 128, true, 512, 512},       // a longer text runs alone
      {32, 4096, true, 0, 4096},       // texts of any length
      {32, 0, true, 0, std::nullopt},  // nothing bounds it
      {1, 0, false, 0, std::nullopt},
  };
  for (const Row& row : rows) {
    ServingOptions options;
    options.max_batch_size = row.rows;
    options.max_batch_cost = row.cost;
    EXPECT_EQ(max_batch_tokens(options, row.can_batch, row.max_tokens), row.tokens)
        << row.rows << " " << row.cost << " " << row.max_tokens;
  }
}

}  // namespace
}  // namespace gpux::server
