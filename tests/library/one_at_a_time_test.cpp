#include "library/one_at_a_time.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpux {
namespace {

// Both functions, from four threads.
TEST(OneAtATime, CallsOneFunctionAtATime) {
  std::atomic<int> inside = 0, most = 0, calls = 0;
  const auto enter = [&] {
    most = std::max(most.load(), ++inside);
    std::this_thread::yield();
    --inside;
    ++calls;
  };
  const PullListener listener = one_at_a_time(
      {.on_progress = [&](const PullProgress&) { enter(); }, .on_message = [&](const std::string&) { enter(); }});
  constexpr int rounds = 2000;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) {
        if (i % 2 == 0) {
          listener.on_progress({});
        } else {
          listener.on_message("a line");
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(calls, 4 * rounds);
}

TEST(OneAtATime, HasNoFunctionsWhereNoneAreGiven) {
  const PullListener listener = one_at_a_time({});
  EXPECT_EQ(listener.on_progress, nullptr);
  EXPECT_EQ(listener.on_message, nullptr);
}

}  // namespace
}  // namespace gpux
