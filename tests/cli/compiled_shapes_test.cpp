// Providers that compile for ranges of shapes: where the ranges are from, what is kept of the engines, and what a run
// of another shape gets. tests/provider/made_compiler.cpp stands for TensorRT for RTX and records its options.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

const std::string two_rows = R"({"x": [[1, 2, 3], [4, 5, 6]]})";
const std::string sums = R"({"y": [[2,4,6],[5,7,9]]})";
const std::string five_rows = R"({"x": [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]]})";

class CompiledShapes : public testing::Test {
 protected:
  [[nodiscard]] Outcome run(Words arguments, const std::vector<std::string>& environment = {}) const {
    fs::remove(record());
    const Words flags{"--provider-library", std::string("tensorrt-rtx=").append(GPUX_MADE_COMPILER)};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    if (arguments.front() == "run") arguments.insert(arguments.end(), {"--isolation", "thread"});
    std::vector<std::string> all{"GPUX_MADE_COMPILER=" + record().string()};
    all.insert(all.end(), environment.begin(), environment.end());
    return gpux_.run(arguments, {.environment = all, .folder = gpux_.folder().path()});
  }

  // What the provider was told and did, without the places of this machine. A preflight comes before.
  [[nodiscard]] std::vector<std::string> recorded(const std::string& beginning) const {
    std::vector<std::string> lines;
    std::ifstream stream(record());
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with(beginning)) lines.push_back(line);
    }
    return lines;
  }

  [[nodiscard]] fs::path record() const { return gpux_.folder().path() / "record"; }

  Program gpux_;
};

TEST_F(CompiledShapes, AreCompiledAheadAndKeptInThePackage) {
  const Outcome built = run(
      {"build", model("add.onnx"), "-t", "add", "--provider", "tensorrt-rtx", "--shapes", "x:1x3..2x3..4x3", "--json"});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(recorded("option nv_profile"),
              ElementsAre("option nv_profile_max_shapes=x:4x3", "option nv_profile_min_shapes=x:1x3",
                          "option nv_profile_opt_shapes=x:2x3"));
  EXPECT_THAT(recorded("compiled"), ElementsAre("compiled for x:1x3 x:2x3 x:4x3"));
  EXPECT_THAT(recorded("run"), ElementsAre("run 1x3", "run 2x3", "run 4x3"));
  EXPECT_EQ(built.json().at("shapes"), "x:1x3..2x3..4x3");
  EXPECT_EQ(built.json().at("engine").at("provider"), "tensorrt-rtx");
  EXPECT_GT(built.json().at("engine").at("size_bytes"), 0);
  EXPECT_THAT(built.err, HasSubstr("what tensorrt-rtx compiled is kept in '"));

  // The first run of the stored package starts with it.
  const fs::path report = gpux_.folder().path() / "report.json";
  const Outcome first = run({"run", "add", "--input", two_rows, "-v", "--report", report.string()});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr(sums));
  EXPECT_THAT(recorded("compiled"), ElementsAre());
  EXPECT_THAT(recorded("read"), Not(ElementsAre()));
  std::ifstream stream(report);
  const Json tried = Json::parse(stream).at("verdict").at("tried").at(0);
  EXPECT_EQ(tried.at("shapes").at("profile"), "x:1x3..2x3..4x3");
  EXPECT_EQ(tried.at("shapes").at("from"), "option");
  EXPECT_EQ(tried.at("engines").at("kept"), true);
  EXPECT_EQ(tried.at("engines").at("folder"), built.json().at("engine").at("folder"));

  // The provider would fail.
  const Outcome outside = run({"run", "add", "--input", five_rows});
  EXPECT_EQ(outside.code, 6);
  EXPECT_THAT(outside.err, HasSubstr("input 'x' is 5x3, and the model was compiled for 1x3 to 4x3; --provider-option "
                                     "tensorrt-rtx.shapes=… compiles it for others"));
  EXPECT_THAT(recorded("run"), ElementsAre());
  // Said anew: other engines.
  const Outcome wider =
      run({"run", "add", "--input", five_rows, "--provider-option", "tensorrt-rtx.shapes=x:1x3..8x3"});
  EXPECT_EQ(wider.code, 0) << wider.err;
  EXPECT_THAT(recorded("compiled"), Contains("compiled for x:1x3 x:8x3 x:8x3"));
  // Another provider does not take them.
  const Outcome elsewhere = run({"run", "add", "--input", five_rows, "--provider", "cpu"});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
}

// Half of one that was written when the machine lost power, or of a compiler that is another behind the same name.
TEST_F(CompiledShapes, AreCompiledAgainWhereTheEngineThatWasKeptCannotBeRead) {
  const Words arguments{"run",     model("add.onnx"), "--provider", "tensorrt-rtx", "--strict", "provider",
                        "--input", two_rows,          "-v"};
  ASSERT_EQ(run(arguments).code, 0);
  fs::path engine;
  for (const auto& entry : fs::recursive_directory_iterator(gpux_.home() / "cache" / "engines")) {
    if (entry.path().filename() == "sum.engine") engine = entry.path();
  }
  ASSERT_FALSE(engine.empty());
  std::ofstream(engine) << "an eng";
  const Outcome again = run(arguments);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr(sums));
  EXPECT_THAT(again.err, AllOf(HasSubstr("tensorrt-rtx: the engine that was kept is removed, and the model compiled "
                                         "again: "),
                               HasSubstr("the engine cannot be deserialized")));
  EXPECT_THAT(recorded("compiled"), Not(ElementsAre()));
  const Outcome warm = run(arguments);
  EXPECT_THAT(warm.err, Not(HasSubstr("compiled again")));
  EXPECT_THAT(recorded("compiled"), ElementsAre());
  EXPECT_THAT(recorded("read"), Not(ElementsAre()));
}

TEST_F(CompiledShapes, AreDerivedFromTheProject) {
  fs::copy_file(model("add.onnx"), gpux_.folder().path() / "add.onnx");
  gpux_.folder().write("gpux.yml",
                       "name: add\nversion: 1.0.0\nmodel:\n  source: add.onnx\nserving:\n  batch_size: 4\n");
  const Outcome outcome = run({"run", ".", "--provider", "tensorrt-rtx", "--input", two_rows, "-v"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(sums));
  EXPECT_THAT(recorded("compiled"), Contains("compiled for x:1x3 x:4x3 x:4x3"));
  EXPECT_THAT(outcome.err, HasSubstr("tensorrt-rtx: compiled for x:1x3..4x3..4x3, which is derived from "
                                     "serving.batch_size; other shapes are refused"));
  EXPECT_EQ(run({"run", ".", "--provider", "tensorrt-rtx", "--input", five_rows}).code, 6);
  // Without shapes the provider takes what comes.
  const Outcome refusing = run({"run", ".", "--provider", "tensorrt-rtx", "--input", five_rows, "-v"},
                               {"GPUX_MADE_COMPILER_REFUSES=1", "GPUX_ENGINE_CACHE_SIZE=0"});
  EXPECT_EQ(refusing.code, 0) << refusing.err;
  EXPECT_THAT(refusing.err,
              AllOf(HasSubstr("ran on tensorrt-rtx"), HasSubstr("no session with those that were derived"),
                    HasSubstr("the profile cannot be applied")));
  EXPECT_THAT(recorded("compiled"), Contains("compiled for   "));
}

TEST_F(CompiledShapes, AreTheProvidersChoiceWhereNothingIsKnown) {
  const Outcome outcome = run({"run", model("add.onnx"), "--provider", "tensorrt-rtx", "--input", five_rows, "-v"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(recorded("option nv_profile"), ElementsAre());
  EXPECT_THAT(outcome.err, HasSubstr("compiles again for larger ones, as nothing says how large dimension 0 (batch) of "
                                     "input 'x' becomes; --provider-option tensorrt-rtx.shapes=… names them"));
}

TEST_F(CompiledShapes, AreRefusedWhereNothingIsCompiledAhead) {
  struct Case {
    const char* provider;
    const char* shapes;
    const char* words;
  };

  const Case cases[] = {
      {"cpu", "x:1x3", "--shapes: cpu compiles nothing ahead of time; accepted: --provider tensorrt"},
      {"cuda", "x:1x3", "--shapes: cuda compiles nothing ahead of time"},
      {"auto", "x:1x3", "--shapes: 'auto' names no provider that compiles"},
      {"tensorrt", "x", "option 'shapes' is 'x': 'x' names no input"},
  };
  for (const Case& one : cases) {
    const Outcome outcome =
        run({"build", model("add.onnx"), "-t", "add", "--provider", one.provider, "--shapes", one.shapes});
    EXPECT_EQ(outcome.code, 2) << one.provider;
    EXPECT_THAT(outcome.err, HasSubstr(one.words));
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  }
  // Not on this machine: the package is for another.
  const Outcome elsewhere =
      run({"build", model("add.onnx"), "-t", "add", "--provider", "tensorrt", "--shapes", "x:1x3..4x3"});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_THAT(elsewhere.err, HasSubstr("nothing was compiled ahead"));
}

/// With the OpenVINO bridge as the only ONNX Runtime.
class CompiledByOpenVino : public CompiledShapes {
 protected:
  void SetUp() override {
    if (!fs::exists(GPUX_DEPS_DIR "/openvino"))
      GTEST_SKIP() << "no OpenVINO in " GPUX_DEPS_DIR ": scripts/setup fetches it";
  }

  [[nodiscard]] Outcome run_there(const Words& arguments) const {
    return gpux_.run(arguments,
                     {.environment = {"GPUX_ONNXRUNTIME=" GPUX_DEPS_DIR "/openvino"}, .folder = gpux_.folder().path()});
  }

  // What became of OpenVINO's engine, as the report of a run has it.
  [[nodiscard]] Json engines(Words arguments) const {
    const fs::path report = gpux_.folder().path() / "report.json";
    arguments.insert(arguments.end(), {"--input", two_rows, "--report", report.string(), "--cache-dir", "auto"});
    const Outcome outcome = run_there(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::ifstream stream(report);
    const Json verdict = Json::parse(stream).at("verdict");
    for (const Json& tried : verdict.at("tried")) {
      if (tried.at("provider") == "openvino") return tried.value("engines", Json());
    }
    return {};
  }
};

TEST_F(CompiledByOpenVino, AreKeptForTheFirstRun) {
  const Outcome built = run_there({"build", model("add.onnx"), "-t", "add", "--provider", "openvino", "--shapes",
                                   "x:1x3..2x3..4x3", "--cache-dir", "auto", "--json"});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_GT(built.json().at("engine").at("size_bytes"), 1000);
  const Json first = engines({"run", "add"});
  EXPECT_EQ(first.at("kept"), true);
  EXPECT_EQ(first.at("folder"), built.json().at("engine").at("folder"));
  // OpenVINO itself would refuse, or with a fixed shape give the first rows alone.
  const Outcome outside = run_there({"run", "add", "--input", five_rows});
  EXPECT_EQ(outside.code, 6);
  const Outcome fixed = run_there({"run", model("add.onnx"), "--provider", "openvino", "--provider-option",
                                   "openvino.reshape_input=x[2,3]", "--input", five_rows});
  EXPECT_EQ(fixed.code, 6) << fixed.out;
  EXPECT_THAT(fixed.err, HasSubstr("input 'x' is 5x3, and the model was compiled for 2x3 to 2x3"));
  // On processors it compiles sooner than it reads: nothing is kept unless asked for.
  const Outcome not_kept =
      run_there({"build", model("add.onnx"), "-t", "other", "--provider", "openvino", "--shapes", "x:1x3..2x3..4x3"});
  EXPECT_EQ(not_kept.code, 0) << not_kept.err;
  EXPECT_THAT(not_kept.err, HasSubstr("nothing is kept of what openvino compiled"));
}

// What it compiled while it was measured.
TEST_F(CompiledByOpenVino, AreKeptByTheMeasurementOfFastest) {
  (void)engines({"run", model("add.onnx"), "--provider", "fastest"});
  const Json later = engines({"run", model("add.onnx"), "--provider", "openvino,cpu", "--precision", "fp32"});
  EXPECT_EQ(later.at("kept"), true);
}

}  // namespace
}  // namespace gpux::test
