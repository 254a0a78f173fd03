#include "generation/run_watch.h"

#include <vector>

#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(RunWatch, StopsWhatNobodyWaitsForAtOnceAndOthersAfterAWhile) {
  const Clock::time_point start{};
  const auto at = [&](int ms) { return start + milliseconds(ms); };
  constexpr milliseconds grace(1000);
  constexpr int waited_for = -1, never = -1;

  struct Case {
    int began;
    std::vector<int> unwanted_since;  // of each text
    int expected;
  };

  const std::vector<Case> cases{
      {0, {waited_for}, never},
      {0, {waited_for, waited_for}, never},
      {0, {300}, 300},
      {0, {300, 700}, 700},
      {0, {300, waited_for}, 1300},
      // It was unwanted before the run began: the run has its time, too.
      {500, {300, waited_for}, 1500},
      {0, {700, waited_for, 300}, 1300},
  };
  for (const Case& one : cases) {
    WatchedRun run{.began = at(one.began), .texts = {}};
    for (const int since : one.unwanted_since) {
      WatchedText text;
      if (since != waited_for) text.unwanted_since = at(since);
      run.texts.push_back(text);
    }
    const auto found = stop_time(run, grace);
    ASSERT_EQ(found.has_value(), one.expected != never) << one.expected;
    EXPECT_EQ(found.value_or(at(never)), at(one.expected));
  }
}

TEST(RunWatch, StopsAtTheLimitWhateverIsWanted) {
  const Clock::time_point start{};
  constexpr milliseconds grace(1000), limit(500);
  WatchedRun run{.began = start, .texts = {}, .limit = start + limit};
  EXPECT_EQ(stop_time(run, grace), start + limit);
  run.texts.resize(1);
  EXPECT_EQ(stop_time(run, grace), start + limit);
  run.texts[0].unwanted_since = start + milliseconds(300);
  EXPECT_EQ(stop_time(run, grace), start + milliseconds(300));
  run.texts[0].unwanted_since = start + milliseconds(700);
  EXPECT_EQ(stop_time(run, grace), start + limit);
}

}  // namespace
}  // namespace gpux::generation
