#include "runtime/scheduling/run_times.h"

#include <gtest/gtest.h>

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;

NamedValues values(const char* name, ElementType type, Shape shape) {
  return {{name, Tensor::allocate(type, std::move(shape))}};
}

TEST(SizeKey, DiffersWithAllThatTellsHowMuchThereIsToDo) {
  const std::vector<std::size_t> first{0}, both{0, 1};
  const std::vector<std::optional<std::uint64_t>> keys{
      size_key(values("x", ElementType::float32, {2, 3}), first),
      size_key(values("x", ElementType::float32, {3, 2}), first),
      size_key(values("x", ElementType::float32, {6}), first),
      size_key(values("x", ElementType::float32, {1, 2, 3}), first),
      size_key(values("x", ElementType::int32, {2, 3}), first),
      size_key(values("y", ElementType::float32, {2, 3}), first),
      size_key(values("x", ElementType::float32, {2, 3}), both),
      size_key({}, first),
  };
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(keys[i]) << i;
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(*keys[i], *keys[j]) << i << " and " << j;
  }
  EXPECT_EQ(keys[0], size_key(values("x", ElementType::float32, {2, 3}), first));
}

TEST(SizeKey, IsMissingWhereSizesDoNotTell) {
  const std::vector<std::size_t> outputs{0};
  EXPECT_FALSE(size_key(values("x", ElementType::string, {2}), outputs));
  EXPECT_FALSE(size_key({{"x", Sequence{}}}, outputs));
}

TEST(RunTimes, RememberWhatWasSlowForSomeTime) {
  RunTimes times;
  EXPECT_FALSE(times.are_below(1, 100s));
  times.add(1, 10us);
  EXPECT_TRUE(times.are_below(1, 11us));
  EXPECT_FALSE(times.are_below(1, 10us));
  EXPECT_FALSE(times.are_below(2, 100s));
  times.add(1, 1000us);
  EXPECT_FALSE(times.are_below(1, 1000us));
  int quick_ones = 0;
  while (!times.are_below(1, 100us)) {
    times.add(1, 10us);
    ASSERT_LT(++quick_ones, 100);
  }
  EXPECT_GT(quick_ones, 3);
}

TEST(RunTimes, ForgetRatherThanGrow) {
  RunTimes times;
  for (std::uint64_t key = 0; key < 100'000; ++key) times.add(key, 1us);
  EXPECT_TRUE(times.are_below(99'999, 2us));
  EXPECT_FALSE(times.are_below(0, 2us));
}

}  // namespace
}  // namespace gpux::runtime
