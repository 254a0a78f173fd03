#include "base/cancellation.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux {
namespace {

using std::chrono::hours;

TEST(Cancellation, NeverEndsWorkByDefault) {
  const Cancellation never;
  EXPECT_FALSE(never.is_requested());
  EXPECT_NO_THROW(never.check());
}

TEST(Cancellation, EndsWorkAfterAStop) {
  std::stop_source source;
  const Cancellation cancellation(source.get_token(), Cancellation::Clock::now() + hours(1));
  EXPECT_NO_THROW(cancellation.check());
  source.request_stop();
  EXPECT_TRUE(cancellation.is_requested());
  try {
    cancellation.check();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
}

TEST(Cancellation, EndsWorkAfterItsDeadline) {
  const Cancellation cancellation({}, Cancellation::Clock::now() - hours(1));
  EXPECT_TRUE(cancellation.is_requested());
  try {
    cancellation.check();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::deadline_exceeded);
  }
}

}  // namespace
}  // namespace gpux
