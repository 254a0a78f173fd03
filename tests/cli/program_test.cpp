#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::test {
namespace {

using testing::HasSubstr;

struct UsageCase {
  std::vector<std::string> arguments;
  std::string says;
};

TEST(Program, RefusesWhatItDoesNotKnowInOneLine) {
  const std::vector<UsageCase> cases = {
      {{}, "subcommand"},
      {{"rum"}, "did you mean 'run'?"},
      {{"version", "--jsn"}, "did you mean '--json'?"},
      {{"version", "--log-format", "xml"}, "--log-format"},
  };
  const Program gpux;
  for (const UsageCase& one : cases) {
    const Outcome outcome = gpux.run(one.arguments);
    EXPECT_EQ(outcome.code, 2) << one.says;
    EXPECT_EQ(outcome.out, "") << one.says;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.says));
  }
}

TEST(Program, SaysItsVersionOnStandardOutput) {
  const Program gpux;
  const Outcome outcome = gpux.run({"version"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.json().contains("gpux"));
  EXPECT_THAT(gpux.run({"--version"}).out, HasSubstr("gpux " + outcome.json()["gpux"].get<std::string>()));
  EXPECT_THAT(gpux.run({"version", "--table"}).out, HasSubstr("ONNX Runtime"));
}

TEST(Program, TakesBadVariablesForUsage) {
  const Program gpux;
  const Outcome outcome = gpux.run({"version"}, {.environment = {"GPUX_LOG_LEVEL=loud"}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("GPUX_LOG_LEVEL is 'loud'; accepted: debug, info, warning, error"));
}

}  // namespace
}  // namespace gpux::test
