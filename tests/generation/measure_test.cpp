#include "generation/measure.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

TEST(MeasuredLoad, FitsInTheContext) {
  struct Row {
    std::size_t context;
    std::optional<std::size_t> prompt, generate;
    std::size_t expected_prompt, expected_generate;
  };

  for (const Row& row : std::vector<Row>{
           {4096, {}, {}, 512, 128},
           {640, {}, {}, 512, 128},
           {639, {}, {}, 512, 127},
           {100, {}, {}, 80, 20},
           {2, {}, {}, 1, 1},
           {100, 90, {}, 90, 10},
           {100, {}, 90, 10, 90},
           {4096, 4000, {}, 4000, 96},
           {4096, {}, 3900, 196, 3900},
           // What was named stays as it is, and is refused where it does not fit.
           {100, 90, 90, 90, 90},
           {100, 200, {}, 200, 1},
       }) {
    const MeasuredLoad load = load_for(row.context, row.prompt, row.generate);
    EXPECT_EQ(load.prompt_tokens, row.expected_prompt) << row.context;
    EXPECT_EQ(load.generate_tokens, row.expected_generate) << row.context;
  }
}

}  // namespace
}  // namespace gpux::generation
