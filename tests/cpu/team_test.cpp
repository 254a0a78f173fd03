#include "kernels/team.h"

#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/side_by_side.h"

namespace gpux_cpu {
namespace {

void one_after_the_other(std::size_t parts, const std::function<void(std::size_t)>& work) {
  for (std::size_t part = parts; part-- > 0;) work(part);
}

TEST(Team, DoesEachPartOfEachStepOnce) {
  for (const ParallelFor& parallel_for : {ParallelFor(side_by_side), ParallelFor(one_after_the_other)}) {
    for (const std::size_t threads : {1, 2, 5}) {
      std::vector<std::size_t> seen;
      Team::run(threads, parallel_for, [&](Team& team) {
        for (std::size_t step = 0; step < 2000; ++step) {
          // What a step has written the next one reads.
          std::vector<std::size_t> next(step % 7);
          team.run_parts(next.size(), [&](std::size_t part) { next[part] += seen.size() + part + 1; });
          for (std::size_t part = 0; part < next.size(); ++part) ASSERT_EQ(next[part], seen.size() + part + 1);
          seen = std::move(next);
        }
      });
      EXPECT_EQ(seen.size(), 1999 % 7U);
    }
  }
}

TEST(Team, DistributesEachItemOnce) {
  for (const std::size_t threads : {1, 2, 5, 16}) {
    for (const std::size_t parts_per_thread : {1, 4}) {
      for (const std::size_t count : {0, 1, 2, 5, 7, 16, 18, 20, 21, 48, 1536}) {
        SCOPED_TRACE(testing::PrintToString(std::array{threads, parts_per_thread, count}));
        std::vector<std::atomic<int>> times(count);
        Team::run(threads, side_by_side, [&](Team& team) {
          distribute(&team, count, parts_per_thread, [&](std::size_t first, std::size_t last) {
            EXPECT_LT(first, last);
            EXPECT_LE(last - first, (count + threads - 1) / threads);
            for (std::size_t item = first; item < last; ++item) ++times[item];
          });
        });
        for (const std::atomic<int>& of_item : times) EXPECT_EQ(of_item, 1);
      }
    }
  }
}

TEST(Team, DividesIntoRangesThatShrink) {
  std::vector<std::size_t> ends;
  for (std::size_t range = 0; range < 8; ++range) ends.push_back(end_of_shrinking_range(1536, 8, range));
  EXPECT_EQ(ends, (std::vector<std::size_t>{360, 672, 936, 1152, 1320, 1440, 1512, 1536}));
}

TEST(Team, ThrowsWhatAPartThrowsAndGoesOn) {
  std::atomic<int> done = 0;
  Team::run(3, side_by_side, [&](Team& team) {
    for (int step = 0; step < 100; ++step) {
      EXPECT_THROW(team.run_parts(4,
                                  [&](std::size_t part) {
                                    ++done;
                                    if (part == 2) throw std::runtime_error("part 2");
                                  }),
                   std::runtime_error);
    }
  });
  EXPECT_EQ(done, 400);
}

TEST(Team, RethrowsTheExceptionOfItsLead) {
  EXPECT_THROW(Team::run(2, one_after_the_other, [](Team& /*team*/) { throw std::out_of_range("of no use"); }),
               std::out_of_range);
}

}  // namespace
}  // namespace gpux_cpu
