// The README's session of a server, as it is typed: commands behind "$ ", and below each what it prints, … for
// anything.
#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process.h"
#include "cli/program.h"

namespace gpux::test {
namespace {

struct Step {
  std::string command;
  std::vector<std::string> shown;
};

std::vector<Step> serving_session() {
  std::ifstream readme(std::string(GPUX_SOURCE_DIR) + "/README.md");
  std::vector<Step> steps;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("    $ gpux serve")) inside = true;
    if (!inside) continue;
    if (line.starts_with("    $ ")) {
      steps.push_back({line.substr(6), {}});
    } else if (line.starts_with("    ")) {
      steps.back().shown.push_back(line.substr(4));
    } else if (!steps.empty()) {
      break;
    }
  }
  return steps;
}

// "a…c" fits "abc".
bool fits(const std::string& shown, std::string_view text) {
  const std::string gap = "…";
  std::size_t begin = 0;
  bool anything = false;
  for (;;) {
    const std::size_t end = shown.find(gap, begin);
    const std::string_view part = std::string_view(shown).substr(begin, end - begin);
    const std::size_t place = text.find(part);
    if (place == std::string_view::npos || (!anything && place != 0)) return false;
    text.remove_prefix(place + part.size());
    if (end == std::string::npos) return text.empty() || (part.empty() && anything);
    begin = end + gap.size();
    anything = true;
  }
}

void replace_all(std::string& text, const std::string& old, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += with.size()) {
    text.replace(at, old.size(), with);
  }
}

// The lines without a prompt: "    gpux build examples/digits    # what it does".
std::vector<std::string> commands_in(const std::filesystem::path& document) {
  std::ifstream text(document);
  std::vector<std::string> commands;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("    gpux ")) commands.push_back(line.substr(4, line.find("  #") - 4));
  }
  return commands;
}

TEST(Readme, ShowsCommandsThatRunAsTheyAreTyped) {
  const Program gpux;
  if (!std::filesystem::exists(GPUX_SOURCE_DIR "/.deps/all-MiniLM-L6-v2")) GTEST_SKIP() << "no .deps/all-MiniLM-L6-v2";
  const std::string folder = Program::file().parent_path();
  std::size_t count = 0;
  for (const std::string& command : commands_in(GPUX_SOURCE_DIR "/README.md")) {
    if (command.starts_with("gpux: ")) continue;  // what it says
    SCOPED_TRACE(command);
    const ProcessResult result =
        run_process({"/bin/sh", "-c", "cd " GPUX_SOURCE_DIR " && PATH=" + folder + ":$PATH && " + command},
                    std::chrono::minutes(2), {"GPUX_HOME=" + gpux.home().string()});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_NE(result.standard_output, "");
    ++count;
  }
  EXPECT_GE(count, 10U);
}

TEST(Readme, ServesAsItShows) {
  const Program gpux;
  const std::vector<Step> steps = serving_session();
  ASSERT_GE(steps.size(), 6U);
  std::string port, pid;
  for (Step step : steps) {
    SCOPED_TRACE(step.command);
    // Only what differs from machine to machine: a free port for 8080, the program that was built.
    if (step.command.starts_with("gpux serve")) step.command += " --port 0";
    if (step.command.starts_with("gpux ")) step.command.replace(0, 4, Program::file().string());
    if (step.command.starts_with("curl ")) step.command.insert(5, "-sS ");
    replace_all(step.command, "localhost:8080", "127.0.0.1:" + port);
    const ProcessResult result = run_process({"/bin/sh", "-c", "cd " GPUX_SOURCE_DIR " && " + step.command},
                                             std::chrono::minutes(1), {"GPUX_HOME=" + gpux.home().string()});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    if (pid.empty()) {
      pid = result.standard_output.substr(0, result.standard_output.find('\n'));
      const Json servers = gpux.run({"ps", "--json"}).json();
      ASSERT_EQ(servers.size(), 1U);
      port = std::to_string(servers.at(0).at("port").get<int>());
    }
    std::string said = result.standard_output.starts_with(pid) ? result.standard_error : result.standard_output;
    while (said.ends_with('\n')) said.pop_back();
    ASSERT_EQ(step.shown.size(), 1U);
    std::string shown = step.shown.front();
    replace_all(shown, "4711", pid);
    replace_all(shown, "8080", port);
    EXPECT_TRUE(fits(shown, said)) << shown << "\n" << said;
  }
  EXPECT_EQ(gpux.run({"ps", "--json"}).json(), Json::array());
}

}  // namespace
}  // namespace gpux::test
