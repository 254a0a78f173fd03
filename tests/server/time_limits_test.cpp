#include "server/requests/time_limits.h"

#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

using Clock = TimeLimits::Clock;
using std::chrono::milliseconds;

TEST(TimeLimits, AreCalledInTheirOrder) {
  TimeLimits limits;
  for (int round = 0; round < 2; ++round) {
    std::string order;
    std::promise<void> last;
    const Clock::time_point now = Clock::now();
    limits.at(now + milliseconds(40), [&] {
      order += 'c';
      last.set_value();
    });
    limits.at(now + milliseconds(20), [&] { order += 'b'; });
    limits.at(now, [&] { order += 'a'; });
    last.get_future().get();
    EXPECT_EQ(order, "abc");
    EXPECT_GE(Clock::now(), now + milliseconds(40));
    std::this_thread::sleep_for(milliseconds(20));  // so that it waits for nothing when the next come
  }
}

TEST(TimeLimits, AreForgottenAtTheEnd) {
  bool called = false;
  {
    TimeLimits limits;
    limits.at(Clock::now() + std::chrono::hours(1), [&] { called = true; });
    limits.end();
    limits.at(Clock::now(), [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace gpux::server
