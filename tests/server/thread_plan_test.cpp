#include "server/models/thread_plan.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::server {
namespace {

using Kind = WorkerRequest::Kind;

TEST(ThreadPlan, StaysWithinTheProcessors) {
  struct Case {
    WorkerRequest workers;
    bool workers_are_set;
    std::optional<unsigned> intra, inter;
    unsigned processors;
    unsigned count, most;             // expected
    std::optional<unsigned> threads;  // expected
    const char* problem = nullptr;
  };

  const std::vector<Case> cases{
      {{Kind::count, 4}, true, 8, {}, 0, 4, 0, 8},
      // What nobody set becomes smaller.
      {{Kind::count, 1}, false, {}, {}, 2, 1, 0, 2},
      {{Kind::count, 8}, false, {}, {}, 2, 2, 0, 2},
      {{Kind::count, 8}, false, 2, {}, 5, 2, 0, 2},
      {{Kind::count, 1}, true, {}, 2, 5, 1, 0, 2},
      {{Kind::automatic, 1}, true, {}, {}, 3, 1, 3, 3},
      {{Kind::automatic, 1, 2}, true, {}, {}, 3, 1, 2, 3},
      {{Kind::automatic, 1}, true, 2, {}, 3, 1, 1, 2},
      {{Kind::devices, 0}, true, {}, {}, 3, 0, 0, 3},
      // What is set is refused.
      {{Kind::count, 3}, true, {}, {}, 2, 0, 0, {}, "3 workers with 1 thread each"},
      {{Kind::count, 2}, true, 2, {}, 3, 0, 0, {}, "2 workers with 2 threads each"},
      {{Kind::count, 1}, false, 3, {}, 2, 0, 0, {}, "3 threads per run"},
      {{Kind::count, 1}, false, 2, 2, 3, 0, 0, {}, "4 threads per run"},
      {{Kind::cores, 2}, true, {}, {}, 2, 0, 0, {}, "cores:2"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    try {
      const ThreadPlan plan = within_processors({.workers = one.workers,
                                                 .workers_are_set = one.workers_are_set,
                                                 .intra_threads = one.intra,
                                                 .inter_threads = one.inter},
                                                one.processors, 64);
      EXPECT_EQ(one.problem, nullptr) << i;
      EXPECT_EQ(plan.workers.count, one.count) << i;
      EXPECT_EQ(plan.workers.most, one.most) << i;
      EXPECT_EQ(plan.intra_threads, one.threads) << i;
    } catch (const Error& error) {
      ASSERT_NE(one.problem, nullptr) << i << error.message();
      EXPECT_THAT(error.message(), testing::HasSubstr(one.problem)) << i;
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    }
  }
}

TEST(ThreadPlan, HasNoMoreThreadsForALimitThanForNone) {
  EXPECT_EQ(within_processors({}, 8, 4).intra_threads, 4);  // 4 cores of 2 processors each
  EXPECT_EQ(within_processors({}, 3, 4).intra_threads, 3);
  EXPECT_EQ(within_processors({.inter_threads = 2}, 8, 3).intra_threads, 3);
  EXPECT_EQ(within_processors({}, 0, 4).intra_threads, std::nullopt);
}

}  // namespace
}  // namespace gpux::server
