#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>

#include "scenario.h"

namespace gpux {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// The OpenVINO bridge on the processor; its ONNX Runtime is its own, and there is a plain one as well.
class OpenVino : public Scenario {
 protected:
  void SetUp() override {
    Scenario::SetUp();
    if (IsSkipped()) return;
    if (!has(Part::openvino)) GTEST_SKIP() << "no OpenVINO in " GPUX_DEPS_DIR ": scripts/setup fetches it";
    install(Part::openvino);
  }

  json load(const std::string& provider, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{model("split"), "--provider", provider, "--input", split_input()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

TEST_F(OpenVino, RunsInItsOwnCore) {
  json cpu = load("cpu", {"infer"});
  EXPECT_THAT(cpu["verdict"]["onnxruntime"]["path"].get<std::string>(), testing::Not(HasSubstr("openvino")));
  for (const char* name : {"openvino", "intel", "OpenVINOExecutionProvider"}) {
    json report = load(name, {"infer"});
    EXPECT_THAT(report["verdict"]["onnxruntime"]["path"].get<std::string>(), HasSubstr("openvino"));
    EXPECT_NE(report["verdict"]["onnxruntime"]["version"], cpu["verdict"]["onnxruntime"]["version"]);
    EXPECT_EQ(report["verdict"]["active"], json({"openvino", "cpu"}));
    EXPECT_EQ(report["verdict"]["fell_back"], false);
    EXPECT_EQ(report["placement"]["cpu"], json({"Det"}));
    EXPECT_EQ(report["placement"]["openvino"].size(), 7U);
    EXPECT_LT(difference(output(report, 0), output(cpu, 0)), 1e-5);
  }
}

TEST_F(OpenVino, IsFoundByItsFolderAlone) {
  std::filesystem::remove_all(home() / "lib");
  std::filesystem::remove_all(home() / "cores");
  set("GPUX_ONNXRUNTIME", GPUX_DEPS_DIR "/openvino");
  EXPECT_EQ(load("openvino")["verdict"]["active"], json({"openvino", "cpu"}));
  json cpu = load("auto", {"infer"});
  EXPECT_EQ(cpu["verdict"]["active"], json({"cpu"}));
}

TEST_F(OpenVino, TakesTheOptionsOfTheDocuments) {
  struct Case {
    const char* option;
    const char* name;
    const char* passed;
    const char* note;
  };

  const Case cases[] = {
      {"device_type=CPU_FP32", "precision", "FP32", "device_type=CPU_FP32 became device_type=CPU, precision=FP32"},
      {"device_type=CPU", "device_type", "CPU", ""},
      {"num_of_threads=2", "num_of_threads", "2", ""},
      {"precision=ACCURACY", "precision", "ACCURACY", ""},
      {"num_streams=2", "num_streams", "2", ""},
      {"model_priority=HIGH", "model_priority", "HIGH", ""},
      {"disable_dynamic_shapes=true", "disable_dynamic_shapes", "true", ""},
      {"enable_qdq_optimizer=1", "enable_qdq_optimizer", "true", ""},
      {"enable_opencl_throttling=0", "enable_opencl_throttling", "false", ""}};
  const std::vector<float> expected = output(load("cpu", {"infer"}), 0);
  for (const Case& c : cases) {
    json report = load("openvino", {"--option", std::string("openvino.") + c.option, "infer"});
    ASSERT_EQ(error_of(report), "") << c.option;
    EXPECT_EQ(attempt(report, "openvino")["outcome"], "active") << c.option << report["line"];
    EXPECT_EQ(attempt(report, "openvino")["options"][c.name], c.passed) << c.option;
    EXPECT_EQ(attempt(report, "openvino")["options"]["device_type"], "CPU") << c.option;
    EXPECT_LT(difference(output(report, 0), expected), 1e-5) << c.option;
    EXPECT_THAT(report["line"].get<std::string>(), HasSubstr(c.note));
  }
}

TEST_F(OpenVino, TakesEverybodysOptions) {
  const std::vector<float> expected = output(load("cpu", {"infer"}), 0);
  json fp32 = load("openvino", {"--precision", "fp32", "infer"});
  EXPECT_EQ(attempt(fp32, "openvino")["options"]["precision"], "FP32");
  EXPECT_LT(difference(output(fp32, 0), expected), 1e-5);
  json bf16 = load("openvino", {"--precision", "bf16", "infer"});
  EXPECT_THAT(attempt(bf16, "openvino")["options"]["load_config"].get<std::string>(), HasSubstr("bf16"));
  EXPECT_LT(difference(output(bf16, 0), expected), 0.05);
  json fp16 = load("openvino", {"--precision", "fp16", "infer"});
  EXPECT_EQ(attempt(fp16, "openvino")["outcome"], "active");
  EXPECT_THAT(fp16["line"].get<std::string>(),
              HasSubstr("openvino computes in fp32, bf16, not in fp16: precision is not enforced"));
  EXPECT_EQ(error_of(load("openvino", {"--precision", "fp16", "--strict", "provider"})),
            "provider_unavailable: strict: openvino computes in fp32, bf16, not in fp16: precision is not enforced");
}

// Folders of the engine cache.
std::vector<std::filesystem::path> engines_in(const std::filesystem::path& home) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(home / "cache/engines/openvino", error)) {
    folders.push_back(entry.path());
  }
  return folders;
}

std::size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// Reading an engine takes longer than compiling one for a processor does.
TEST_F(OpenVino, KeepsNothingOfAProcessorByItself) {
  json report = load("openvino", {"infer"});
  if (attempt(report, "openvino")["devices"].size() > 1) GTEST_SKIP() << "this machine has an Intel GPU";
  EXPECT_TRUE(engines_in(home()).empty());
}

TEST_F(OpenVino, KeepsWhatItCompiles) {
  const std::vector<float> expected = output(load("cpu", {"infer"}), 0);
  json first = load("openvino", {"--cache", "auto", "infer"});
  ASSERT_EQ(engines_in(home()).size(), 1U);
  const std::filesystem::path folder = engines_in(home()).front();
  const std::size_t files = files_in(folder);
  EXPECT_GT(files, 1U) << "OpenVINO wrote nothing next to engine.json";
  EXPECT_EQ(attempt(first, "openvino")["options"]["cache_dir"], folder.string());
  json second = load("openvino", {"--cache", "auto", "infer"});
  EXPECT_LT(difference(output(second, 0), expected), 1e-5);
  EXPECT_EQ(files_in(folder), files);
  EXPECT_THAT(second["line"].get<std::string>(), testing::Not(HasSubstr("compiles the model again")));
  // Other options are another engine, and the verdict tells the reason.
  json other = load("openvino", {"--cache", "auto", "--option", "openvino.num_streams=2", "infer"});
  EXPECT_EQ(engines_in(home()).size(), 2U);
  EXPECT_THAT(other["line"].get<std::string>(),
              HasSubstr("openvino: it compiles the model again: the options changed from"));
  EXPECT_LT(difference(output(other, 0), expected), 1e-5);
}

// As after a process that was killed, or by another program: it compiles anew.
TEST_F(OpenVino, DoesNotTrustWhatIsDamaged) {
  const std::vector<float> expected = output(load("openvino", {"--cache", "auto", "infer"}), 0);
  ASSERT_EQ(engines_in(home()).size(), 1U);
  for (const auto& entry : std::filesystem::directory_iterator(engines_in(home()).front())) {
    if (entry.path().filename() != "engine.json") std::filesystem::resize_file(entry.path(), 100);
  }
  json report = load("openvino", {"--cache", "auto", "infer"});
  EXPECT_EQ(error_of(report), "");
  EXPECT_EQ(attempt(report, "openvino")["outcome"], "active") << report["line"];
  EXPECT_LT(difference(output(report, 0), expected), 1e-5);
}

TEST_F(OpenVino, KeepsNothingWhereItIsToldSo) {
  set("GPUX_ENGINE_CACHE_SIZE", "0");
  json report = load("openvino", {"--cache", "auto", "infer"});
  EXPECT_TRUE(engines_in(home()).empty());
  EXPECT_FALSE(attempt(report, "openvino")["options"].contains("cache_dir"));
  set("GPUX_ENGINE_CACHE_SIZE", "1GB");
  const std::string own = (home() / "own").string();
  json given = load("openvino", {"--cache", "auto", "--option", "openvino.cache_dir=" + own, "infer"});
  EXPECT_TRUE(engines_in(home()).empty());
  EXPECT_EQ(attempt(given, "openvino")["options"]["cache_dir"], own);
}

TEST_F(OpenVino, RefusesOptionsByNameBeforeTheSession) {
  EXPECT_THAT(
      error_of(load("openvino", {"--option", "openvino.devise_type=CPU"})),
      StartsWith("usage: --option: provider openvino: option 'devise_type' is not known, did you mean 'device_type'?"));
  EXPECT_THAT(error_of(load("cpu", {"--option", "openvino.num_of_threads=many"})), HasSubstr("accepted: an integer"));
  EXPECT_THAT(error_of(load("openvino", {"--option", "openvino.device_id=0"})), HasSubstr("use device_type"));
}

TEST_F(OpenVino, TellsTheBridgesOwnReason) {
  json report = load("openvino", {"--option", "openvino.device_type=NPU", "infer"});
  EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
  EXPECT_EQ(attempt(report, "openvino")["outcome"], "failed");
  EXPECT_THAT(attempt(report, "openvino")["reason"].get<std::string>(), HasSubstr("NPU is not available"));
  EXPECT_LT(difference(output(report, 0), output(load("cpu", {"infer"}), 0)), 1e-6);
}

TEST_F(OpenVino, IsNotAutosChoiceOnAProcessor) {
  json report = load("auto");
  if (attempt(report, "openvino")["devices"].size() > 1) GTEST_SKIP() << "this machine has an Intel GPU";
  EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
  EXPECT_EQ(attempt(report, "openvino")["outcome"], "not_needed");
  EXPECT_THAT(report["verdict"]["onnxruntime"]["path"].get<std::string>(), testing::Not(HasSubstr("openvino")));
}

TEST_F(OpenVino, DoesNotGoTogetherWithAnotherCore) {
  if (!has(Part::webgpu) || !has(Part::vulkan)) GTEST_SKIP() << "no WebGPU plugin in " GPUX_DEPS_DIR;
  install(Part::webgpu);
  set_software_vulkan();
  json second = load("webgpu,openvino,cpu");
  EXPECT_EQ(second["verdict"]["active"], json({"webgpu", "cpu"}));
  EXPECT_THAT(attempt(second, "openvino")["reason"].get<std::string>(), StartsWith("not with this core: it needs '"));
  EXPECT_EQ(attempt(second, "openvino")["remedy"], "ask for it first: provider openvino");
  json first = load("openvino,webgpu,cpu");
  EXPECT_EQ(first["verdict"]["active"], json({"openvino", "cpu"}));
  EXPECT_THAT(attempt(first, "webgpu")["reason"].get<std::string>(),
              StartsWith("not with this core: it needs ONNX Runtime 1.24.4 or newer, this is "));
}

TEST_F(OpenVino, MeasuresTheMemoryThatItTakesOnAProcessor) {
  EXPECT_THAT(error_of(load("openvino", {"--memory", "1000"})), StartsWith("resource_exhausted: the model takes "));
  EXPECT_EQ(error_of(load("openvino", {"--memory", "100000000000"})), "");
}

}  // namespace
}  // namespace gpux
