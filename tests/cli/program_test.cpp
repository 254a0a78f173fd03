#include "cli/program.h"

#include <map>
#include <set>
#include <sstream>

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
  const Outcome outcome = gpux.run({"version", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.json().contains("gpux"));
  EXPECT_THAT(gpux.run({"--version"}).out, HasSubstr("gpux " + outcome.json()["gpux"].get<std::string>()));
  EXPECT_THAT(gpux.run({"version", "--table"}).out, HasSubstr("ONNX Runtime"));
}

TEST(Program, HelpsInEveryCommand) {
  const Program gpux;
  const std::string all = gpux.run({"--help"}).out;
  EXPECT_THAT(all, HasSubstr("gpux"));
  EXPECT_EQ(gpux.run({"-h"}).out, all);
  EXPECT_EQ(gpux.run({"help"}).out, all);
  for (const char* command : {"run",   "embed",  "search", "serve",     "daemon", "bench",  "verify",     "inspect",
                              "build", "import", "images", "tag",       "rm",     "prune",  "ps",         "health",
                              "stats", "logs",   "stop",   "providers", "doctor", "schema", "completion", "version"}) {
    const Outcome asked = gpux.run({command, "-h"});
    EXPECT_EQ(asked.code, 0) << command;
    EXPECT_THAT(asked.out, HasSubstr("-h,--help")) << command;
    EXPECT_THAT(asked.out, testing::Not(HasSubstr("x)]"))) << "a number of words that nobody types";
    for (const char* type : {"UINT", "FLOAT", "Excludes:", "Needs:", "REQUIRED", "{true}", "{false}"}) {
      EXPECT_THAT(asked.out, testing::Not(HasSubstr(type))) << command << ": a name of CLI11's in place of a user's";
    }
    EXPECT_EQ(gpux.run({command, "--help"}).out, asked.out);
    EXPECT_EQ(gpux.run({"help", command}).out, asked.out);
  }
  EXPECT_THAT(gpux.run({"serve", "-h"}).out, HasSubstr("  -p,--port PORT "));
  EXPECT_THAT(gpux.run({"run", "-h"}).out, HasSubstr("  --non-finite null|string "));
  EXPECT_EQ(gpux.run({"help", "rum"}).code, 2);
}

// "  -p,--provider TEXT ..." of each command's help.
TEST(Program, GivesAShortFlagOneMeaning) {
  const Program gpux;
  std::map<std::string, std::set<std::string>> meanings;
  for (const char* command : {"run",   "embed",  "search", "serve",     "daemon", "bench",  "verify",     "inspect",
                              "build", "import", "images", "tag",       "rm",     "prune",  "ps",         "health",
                              "stats", "logs",   "stop",   "providers", "doctor", "schema", "completion", "version"}) {
    std::istringstream lines(gpux.run({command, "-h"}).out);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t dash = line.find_first_not_of(' ');
      if (dash == std::string::npos || line.compare(dash, 1, "-") != 0 || line.compare(dash, 2, "--") == 0) continue;
      const std::size_t flag = line.find("--", dash);
      ASSERT_NE(flag, std::string::npos) << line;
      const std::string name = line.substr(flag, line.find_first_of(" ,", flag) - flag);
      if (std::string(command) != "serve" || name != "--port") meanings[line.substr(dash, 2)].insert(name);
    }
  }
  EXPECT_GE(meanings.size(), 8U);
  for (const auto& [flag, names] : meanings) EXPECT_EQ(names.size(), 1U) << flag << testing::PrintToString(names);
}

TEST(Program, TakesOtherToolsNamesOfItsCommands) {
  const Program gpux;
  ASSERT_EQ(gpux.run({"build", model("add.onnx"), "-t", "adder"}).code, 0);
  const std::string images = gpux.run({"images", "--json"}).out;
  for (const char* name : {"ls", "list"}) EXPECT_EQ(gpux.run({name, "--json"}).out, images) << name;
  for (const char* name : {"show", "info"}) {
    const Outcome outcome = gpux.run({name, "adder"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("use 'gpux inspect'"));
  }
  const std::string id = Json::parse(images).at(0).at("id");
  for (const std::string& model : {std::string("adder:latest"), id, id.substr(7, 12)}) {
    EXPECT_EQ(gpux.run({"run", model, "-i", R"({"x": [[1, 2, 3]]})"}).code, 0) << model;
    EXPECT_EQ(gpux.run({"inspect", model}).code, 0) << model;
    EXPECT_EQ(gpux.run({"inspect", "-m", model}).code, 0) << model;
  }
  EXPECT_EQ(gpux.run({"tag", id.substr(7, 12), "again"}).code, 0);
  const Outcome several = gpux.run({"rmi", id});
  EXPECT_EQ(several.code, 2);
  EXPECT_THAT(several.err, HasSubstr("has 2 names: give those to remove: adder:latest, again:latest"));
  EXPECT_EQ(gpux.run({"rmi", "again"}).code, 0);
  EXPECT_EQ(gpux.run({"rm", id.substr(7, 12)}).code, 0);
  EXPECT_EQ(Json::parse(gpux.run({"ls", "--json"}).out).size(), 0U);
}

TEST(Program, TakesBadVariablesForUsage) {
  const Program gpux;
  const Outcome outcome = gpux.run({"version"}, {.environment = {"GPUX_LOG_LEVEL=loud"}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("GPUX_LOG_LEVEL is 'loud'; accepted: debug, info, warning, error"));
}

}  // namespace
}  // namespace gpux::test
