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

  static std::string answer(const std::string& provider, const std::string& milliseconds,
                            const std::string& precision = "fp32", const std::string& cosine = "1") {
    return "echo '{\"median_time_ms\": " + milliseconds + R"(, "verdict": {"active": [")" + provider +
           R"("], "precision": ")" + precision + R"("}, "agreement": {"mean_cosine": )" + cosine + "}}'";
  }

  // OpenVINO's answer by the precision that it is told.
  static std::string by_precision(const std::string& fp32, const std::string& bf16) {
    return "case \"$*\" in *'--compare --precision bf16'*) " + bf16 + ";; *'--precision fp32'*) " + fp32 +
           ";; *) exit 2;; esac";
  }

  json load(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{model("split"), "--provider", "fastest"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {"--input", split_input(), "infer"});
    return run(arguments, program_);
  }

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

TEST_F(Fastest, KeepsThePrecisionUnlessAnyWillDo) {
  install_program(by_precision(answer("openvino", "1.5"), answer("openvino", "1", "bf16", "0.9995")),
                  answer("cpu", "2.5"));
  json own = load();
  EXPECT_EQ(own["verdict"]["precision"], "fp32");
  EXPECT_EQ(attempt(own, "openvino")["options"]["precision"], "FP32");
  EXPECT_EQ(calls(), 2U);
  json any = load({"--precision", "any"});
  EXPECT_EQ(any["verdict"]["precision"], "bf16");
  EXPECT_THAT(attempt(any, "openvino")["options"]["load_config"].get<std::string>(), HasSubstr("bf16"));
  EXPECT_THAT(any["line"].get<std::string>(),
              HasSubstr("measured a run: openvino 1.5 ms, openvino in bf16 1 ms, cpu 2.5 ms"));
  EXPECT_EQ(calls(), 5U);
  EXPECT_EQ(load({"--precision", "any"})["verdict"]["precision"], "bf16");
  EXPECT_EQ(load()["verdict"]["precision"], "fp32");
  EXPECT_EQ(calls(), 5U);
}

TEST_F(Fastest, LeavesOutAPrecisionThatIsNotComputedOrTooFarOff) {
  struct Case {
    const char* precision;
    const char* cosine;
    const char* reason;
  };

  const Case cases[] = {{"bf16", "0.9985", "not openvino in bf16: mean cosine 0.998500 is below 0.999"},
                        {"fp32", "1", "not openvino in bf16: it does not compute in that here"},
                        {"bf16", "\"near\"", "not openvino in bf16: its process answered something else"}};
  for (const Case& c : cases) {
    std::filesystem::remove_all(home() / "fastest");
    install_program(by_precision(answer("openvino", "1.5"), answer("openvino", "1", c.precision, c.cosine)),
                    answer("cpu", "2.5"));
    json report = load({"--precision", "any"});
    EXPECT_EQ(report["verdict"]["precision"], "fp32");
    EXPECT_EQ(report["verdict"]["active"], json({"openvino", "cpu"}));
    EXPECT_THAT(report["line"].get<std::string>(), HasSubstr(c.reason));
  }
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
      {R"(echo '{"median_time_ms": 1, "verdict": {"active": ["cpu"]}}')", "it supports none of the model's nodes"}};
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
