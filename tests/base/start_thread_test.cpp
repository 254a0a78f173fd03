#include "base/start_thread.h"

#include <atomic>

#include <gtest/gtest.h>

#include "base/no_threads.h"

namespace gpux {
namespace {

TEST(StartedThread, IsAnErrorWhereTheSystemHasNone) {
  std::atomic<int> runs = 0;
  {
    const test::NoThreads none;
    try {
      start_thread([&] { ++runs; }).join();
      FAIL() << "it was started";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
      EXPECT_EQ(error.message().substr(0, 25), "no thread can be started:");
    }
  }
  EXPECT_EQ(runs, 0);
  start_thread([&] { ++runs; }).join();
  EXPECT_EQ(runs, 1);
}

TEST(MoreThreads, AreAsManyAsTheSystemHas) {
  std::atomic<int> runs = 0;
  const auto work = [&] { ++runs; };
  {
    const test::NoThreads none;
    EXPECT_TRUE(start_more_threads(3, work).empty());
  }
  EXPECT_EQ(start_more_threads(3, work).size(), 3U);
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace gpux
