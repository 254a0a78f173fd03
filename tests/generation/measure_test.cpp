#include "generation/measure.h"

#include <optional>
#include <vector>

#include <gmock/gmock.h>

#include "generation/product_rate.h"
#include "generation/read_rate.h"

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

TEST(ReadRate, IsThatOfMemoryOrCaches) {
  for (const unsigned threads : {0U, 1U, 3U}) {
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{100'000}, std::uint64_t{8} << 20}) {
      const double rate = read_rate(threads, bytes);
      EXPECT_GT(rate, 1e6) << threads << " threads, " << bytes;
      EXPECT_LT(rate, 1e13) << threads << " threads, " << bytes;
    }
  }
}

TEST(ReadRate, SaysWhatLimits) {
  using testing::HasSubstr;
  EXPECT_THAT(limit_line(0.9, 0, 1), HasSubstr("90 % of what memory gives: memory limits"));
  EXPECT_THAT(limit_line(0.9, 0.3, 16), HasSubstr("30 % of the processor's products: memory limits"));
  EXPECT_THAT(limit_line(0.4, 0.7, 16), HasSubstr("70 % of the processor's products: products limit"));
  EXPECT_THAT(limit_line(0.4, 0.3, 16), HasSubstr("neither limits alone"));
  EXPECT_THAT(limit_line(0.4, 0, 16), HasSubstr("the products of all texts limit"));
  EXPECT_THAT(limit_line(0.4, 0, 1), HasSubstr("computing limits"));
}

#if defined(__x86_64__)
TEST(ByteProductRate, IsThatOfTheProcessor) {
  if (__builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "no AVX2";
  // Sanitized and beside other work it is slow; and no processor computes 10 T.
  EXPECT_GT(byte_product_rate(1), 1e7);
  EXPECT_LT(byte_product_rate(1), 1e13);
}
#endif

}  // namespace
}  // namespace gpux::generation
