#include <fstream>

#include <gmock/gmock.h>

#include "scenario.h"

namespace gpux {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// "fastest" through a load. The program that measures lies in HOME/bin, as where gpux is installed.
class Fastest : public Scenario {
 protected:
  void SetUp() override {
    Scenario::SetUp();
    if (IsSkipped()) return;
    if (!has(Part::openvino)) GTEST_SKIP() << "no OpenVINO in " GPUX_DEPS_DIR ": scripts/setup fetches it";
    install(Part::openvino);
    std::filesystem::create_directory(home() / "bin");
    program_ = home() / "bin" / "run_scenario";
    std::filesystem::copy_file(GPUX_RUN_SCENARIO, program_);
  }

  // A gpux whose `bench --json` answers with the times given: the interface, not the measuring, is tried here.
  void install_program(const std::string& openvino, const std::string& cpu) {
    const std::filesystem::path gpux = home() / "bin" / "gpux";
    std::ofstream script(gpux);
    script << "#!/bin/sh\necho \"$@\" >> \"" << (home() / "calls").string() << "\"\ncase \"$*\" in\n"
           << "*'--provider openvino,'*) " << openvino << ";;\n*'--provider cpu,'*) " << cpu
           << ";;\n*) exit 2;;\nesac\n";
    script.close();
    std::filesystem::permissions(gpux, std::filesystem::perms::owner_all);
  }

  static std::string answer(const char* provider, const char* milliseconds) {
    return std::string("echo '{\"median_time_ms\": ") + milliseconds + R"(, "verdict": {"active": [")" + provider +
           "\"]}}'";
  }

  json load() { return run({model("split"), "--provider", "fastest", "--input", split_input(), "infer"}, program_); }

  [[nodiscard]] std::size_t calls() const {
    std::ifstream file(home() / "calls");
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

  std::filesystem::path program_;
};

TEST_F(Fastest, OpensTheCoreOfTheWinner) {
  install_program(answer("openvino", "1.5"), answer("cpu", "2.5"));
  json report = load();
  EXPECT_EQ(report["verdict"]["requested"], "fastest");
  EXPECT_EQ(report["verdict"]["active"], json({"openvino", "cpu"}));
  EXPECT_THAT(report["verdict"]["onnxruntime"]["path"].get<std::string>(), HasSubstr("openvino"));
  EXPECT_THAT(report["line"].get<std::string>(), HasSubstr("measured a run: openvino 1.5 ms, cpu 2.5 ms"));
  EXPECT_EQ(calls(), 2U);
  json again = load();
  EXPECT_EQ(again["verdict"]["active"], json({"openvino", "cpu"}));
  EXPECT_THAT(again["line"].get<std::string>(), HasSubstr("measured before a run: openvino 1.5 ms"));
  EXPECT_EQ(calls(), 2U);
}

TEST_F(Fastest, ListsTheSlowerOnesWithTheirTimes) {
  install_program(answer("openvino", "7"), answer("cpu", "2.5"));
  json report = load();
  EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
  EXPECT_EQ(report["verdict"]["fell_back"], false);
  EXPECT_EQ(attempt(report, "openvino")["outcome"], "not_needed");
  EXPECT_EQ(attempt(report, "openvino")["reason"], "slower on this model: 7 ms a run");
  EXPECT_EQ(attempt(report, "cuda")["outcome"], "unavailable");
}

TEST_F(Fastest, SkipsWhatFails) {
  struct Case {
    const char* command;
    const char* reason;
  };

  const Case cases[] = {
      {"echo 'gpux: no device' >&2; exit 5", "gpux: no device"},
      {"exit 5", "its process ended with 5"},
      {"echo nonsense", "its process answered something else"},
      {"echo '{}'", "its process answered something else"},
      {R"(echo '{"median_time_ms": 1, "verdict": {"active": ["cpu"]}}')", "it takes none of the model's nodes"}};
  for (const Case& c : cases) {
    std::filesystem::remove_all(home() / "fastest");
    install_program(c.command, answer("cpu", "2.5"));
    json report = load();
    EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
    EXPECT_EQ(attempt(report, "openvino")["outcome"], "failed");
    EXPECT_THAT(attempt(report, "openvino")["reason"].get<std::string>(), HasSubstr(c.reason));
  }
}

TEST_F(Fastest, IsAutosChoiceWhereNothingCouldBeMeasured) {
  install_program("exit 5", "exit 5");
  json report = load();
  EXPECT_EQ(report["verdict"]["requested"], "fastest");
  EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
  EXPECT_THAT(report["line"].get<std::string>(), HasSubstr("nothing could be timed on this model"));
  EXPECT_FALSE(std::filesystem::exists(home() / "fastest"));
}

TEST_F(Fastest, MeasuresHereWhereThereIsNoProgram) {
  json report = load();
  EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
  EXPECT_THAT(report["line"].get<std::string>(), HasSubstr("measured a run: cpu "));
  EXPECT_THAT(attempt(report, "openvino")["reason"].get<std::string>(), HasSubstr("not with this core"));
}

TEST_F(Fastest, MeasuresWithTheProgramItself) {
  std::filesystem::create_symlink(GPUX_PROGRAM, home() / "bin" / "gpux");
  json report = load();
  EXPECT_EQ(report["verdict"]["requested"], "fastest");
  EXPECT_THAT(report["line"].get<std::string>(),
              testing::ContainsRegex("measured a run: openvino [0-9.e-]+ ms, cpu [0-9.e-]+ ms"));
  json again = load();
  EXPECT_THAT(again["line"].get<std::string>(), HasSubstr("measured before a run: "));
  EXPECT_EQ(again["verdict"]["active"], report["verdict"]["active"]);
}

}  // namespace
}  // namespace gpux
