#include "ort/compute_turn.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpux::ort {
namespace {

TEST(ComputeTurn, IsOfSoManyRunsAtATime) {
  ComputeTurn turn(2);
  std::atomic<bool> never = false;
  std::atomic<int> inside = 0, most = 0, all = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        for (int run = 0; run < 50; ++run) {
          ASSERT_TRUE(turn.take(never));
          const int now = ++inside;
          for (int known = most; known < now && !most.compare_exchange_weak(known, now);) {
          }
          std::this_thread::yield();
          --inside;
          ++all;
          turn.give_back();
        }
      });
    }
  }
  EXPECT_LE(most, 2);
  EXPECT_EQ(all, 300);
}

TEST(ComputeTurn, IsNotForARunThatIsStopped) {
  ComputeTurn turn(1);
  std::atomic<bool> never = false, stopped = false;
  ASSERT_TRUE(turn.take(never));
  std::atomic<bool> has_turn = true;
  std::atomic<bool> is_behind = false;
  std::thread waiting([&] { has_turn = turn.take(stopped); });
  std::thread behind([&] {
    is_behind = turn.take(never);
    turn.give_back();
  });
  stopped = true;
  turn.wake();
  waiting.join();
  EXPECT_FALSE(has_turn);
  EXPECT_FALSE(is_behind);
  turn.give_back();
  behind.join();
  EXPECT_TRUE(is_behind);
  EXPECT_FALSE(turn.take(stopped));
  EXPECT_TRUE(turn.take(never));
}

}  // namespace
}  // namespace gpux::ort
