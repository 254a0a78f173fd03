#include "base/process.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Far from both: a machine may be busy.
constexpr auto soon = 20s, long_after = 60s;

TEST(RunProcess, GivesWhatAProgramWrites) {
  const ProcessResult result =
      run_process({"sh", "-c", "cat; echo error >&2; echo $NAME; exit 3"}, long_after, {"NAME=value"}, "input\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.standard_output, "input\nvalue\n");
  EXPECT_EQ(result.standard_error, "error\n");
  EXPECT_THROW(run_process({"/no/such/program"}), Error);
}

TEST(RunProcess, GivesAllOfALongOutput) {
  const ProcessResult result = run_process({"sh", "-c", "head -c 3000000 /dev/zero"}, long_after);
  EXPECT_EQ(result.standard_output.size(), 3'000'000U);
}

// A program may leave another behind that holds its output open, as a helper that starts an agent does.
TEST(RunProcess, WaitsForTheProgramAlone) {
  const auto start = Clock::now();
  const ProcessResult result = run_process({"sh", "-c", "sleep 30 & echo done"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.standard_output, "done\n");
  EXPECT_LT(Clock::now() - start, soon);
}

TEST(RunProcess, EndsAtItsLimit) {
  for (const char* script :
       {"exec sleep 60", "sleep 60 & sleep 60", "exec sleep 60 >&- 2>&-", "while :; do echo more; done"}) {
    const auto start = Clock::now();
    const ProcessResult result = run_process({"sh", "-c", script}, 100ms);
    EXPECT_TRUE(result.timed_out) << script;
    EXPECT_EQ(result.exit_code, 128 + 9) << script;
    EXPECT_LT(Clock::now() - start, soon) << script;
  }
}

}  // namespace
}  // namespace gpux
