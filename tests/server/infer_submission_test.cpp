// The memory that values take while an answer is put together.
#include "server/jobs/infer_submission.h"

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

TEST(BytesOfValues, CountWhatSequencesAndMapsHold) {
  const Tensor numbers = Tensor::allocate(ElementType::float32, {100});
  const Tensor words = Tensor::of_strings({2}, {"one", "another"});
  const std::uint64_t word_bytes = 2 * sizeof(std::string) + 10;
  Sequence empty_ones;
  empty_ones.values.assign(1000, Sequence());
  EXPECT_EQ(bytes_of({{"y", numbers}}), 400U);
  EXPECT_EQ(bytes_of({{"y", words}, {"z", numbers}}), word_bytes + 400);
  EXPECT_EQ(bytes_of({{"y", Map{words, numbers}}}), word_bytes + 400);
  EXPECT_EQ(bytes_of({{"y", empty_ones}}), 1000 * sizeof(Value));
  EXPECT_EQ(bytes_of({{"y", Sequence{{numbers, Map{words, numbers}, Sequence{{numbers}}}}}}),
            4 * sizeof(Value) + 1200 + word_bytes);
  EXPECT_EQ(bytes_of({{"y", std::monostate{}}}), 0U);
}

}  // namespace
}  // namespace gpux::server
