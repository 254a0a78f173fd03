// The program that run_cases() starts again and again is this test itself, called with --lines.
#include <algorithm>
#include <csignal>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evaluation/suite.h"
#include "gpux/error.h"

namespace gpux::evaluation {
namespace {

using testing::HasSubstr;

std::vector<CaseResult> results_of(const std::vector<std::string>& names) {
  double last = 0;
  auto results = run_cases(names, {"--lines"}, [&](double done) {
    EXPECT_GE(done, last);
    last = done;
  });
  EXPECT_EQ(last, 1);
  return results;
}

TEST(RunCases, KeepsTheOrderOverSeveralProcesses) {
  std::vector<std::string> names;
  for (int i = 0; i < 150; ++i) names.push_back("case" + std::to_string(i));
  const auto results = results_of(names);
  ASSERT_EQ(results.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(results[i].name, names[i]);
    EXPECT_EQ(results[i].outcome, CaseResult::Outcome::passed);
    EXPECT_EQ(results[i].active, std::vector<std::string>{"cpu"});
  }
}

TEST(RunCases, CrashesLoseNoOtherCase) {
  const auto results = results_of({"crash1", "a", "b", "crash2", "crash3", "c", "exit", "d", "crash4"});
  ASSERT_EQ(results.size(), 9U);
  for (const CaseResult& result : results) {
    const bool crashed = result.name.starts_with("crash");
    EXPECT_EQ(result.outcome == CaseResult::Outcome::passed, !crashed && result.name != "exit") << result.name;
    if (crashed) {
      EXPECT_THAT(result.reason, HasSubstr("signal 11: last words")) << result.name;
    }
    if (result.name == "exit") {
      EXPECT_EQ(result.reason, "the process ended with 0 and said nothing");
    }
  }
}

TEST(RunCases, WrongFlagsEndTheRun) {
  EXPECT_THROW((void)run_cases({"usage"}, {"--lines"}, [](double) {}), Error);
}

TEST(CaseResult, SurvivesItsLine) {
  const CaseResult result{"test_\"x\"", CaseResult::Outcome::not_supported, "two\nlines \xff", {"webgpu", "cpu"}};
  const std::string line = to_line(result);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const CaseResult back = case_from_line(line);
  EXPECT_EQ(back.name, result.name);
  EXPECT_EQ(back.outcome, result.outcome);
  EXPECT_EQ(back.active, result.active);
  EXPECT_THAT(back.reason, HasSubstr("two\nlines"));
  for (const char* other : {"", "{}", "[]", "{\"name\": 1}", "{\"name\": \"a\", \"passed\": \"yes\"", "noise"}) {
    EXPECT_EQ(case_from_line(other).name, "") << other;
  }
}

int play_cases(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--case=")) continue;
    const std::string name = argument.substr(7);
    if (name == "usage") return 2;
    if (name == "exit") return 0;
    if (name.starts_with("crash")) {
      std::cerr << "last words\n" << std::flush;
      std::signal(SIGSEGV, SIG_DFL);
      std::raise(SIGSEGV);
    }
    std::cout << "noise of a library\n" << to_line({name, CaseResult::Outcome::passed, "", {"cpu"}}) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace gpux::evaluation

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments, arguments + count);
  if (std::find(words.begin(), words.end(), "--lines") != words.end()) return gpux::evaluation::play_cases(words);
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
