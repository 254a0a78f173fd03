// gpux's own providers under auto: compared when a model is packaged, and taken by its later loads.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"
#include "cli/program.h"
#include "pipeline/task_folder.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string decoder_folder = GPUX_SOURCE_DIR "/tests/generation/references/qwen3";
const std::string encoder_folder = GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls";

class OwnProvider : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_avx2(Machine::this_one())) GTEST_SKIP() << "auto takes gpux's own providers on processors with AVX2";
  }

  [[nodiscard]] Outcome run(std::vector<std::string> arguments) const {
    Outcome outcome = gpux_.run(std::move(arguments));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }

  [[nodiscard]] Json compared(const std::string& model) const {
    return Json::parse(run({"inspect", model, "--json"}).out).at("package").at("compared_provider");
  }

  Program gpux_;
};

TEST_F(OwnProvider, IsTakenByAutoWhereItsOutputsAgree) {
  struct Case {
    std::string folder, provider;
    std::vector<std::string> command;
  };

  for (const Case& one : {Case{encoder_folder, "encoder", {"embed", "--model", "it", "w1"}},
                          Case{decoder_folder, "decoder", {"generate", "it", "w1", "--max-tokens", "3"}}}) {
    SCOPED_TRACE(one.provider);
    (void)run({"import", one.folder, "-t", "it"});
    EXPECT_EQ(compared("it").at("provider"), one.provider);
    EXPECT_GE(compared("it").at("least_cosine"), 0.999);
    EXPECT_EQ(compared("it").at("difference"), "");
    EXPECT_THAT(run({"inspect", "it"}).out, HasSubstr("on processors with AVX2, where there is no accelerator"));

    const std::string taken = run(one.command).err;
    EXPECT_THAT(taken, HasSubstr("ran on " + one.provider + " ("));
    EXPECT_THAT(taken, HasSubstr("asked for auto (default); " + one.provider + " is gpux's own, and was compared"));
    EXPECT_THAT(taken, HasSubstr("--provider cpu for ONNX Runtime's"));
    std::vector<std::string> on_cpu = one.command;
    on_cpu.insert(on_cpu.end(), {"--provider", "cpu"});
    EXPECT_THAT(run(on_cpu).err, HasSubstr("ran on cpu ("));
    std::vector<std::string> strictly = one.command;
    strictly.emplace_back("--strict=nodes");
    EXPECT_THAT(run(strictly).err, HasSubstr("ran on " + one.provider + " ("));
    std::vector<std::string> in_little = one.command;
    in_little.insert(in_little.end(), {"--memory", "4GB"});
    EXPECT_THAT(run(in_little).err, HasSubstr("ran on " + one.provider + " ("));
  }
}

TEST_F(OwnProvider, IsNotTakenWhereItsWeightsDoNotFitTwice) {
  (void)run({"import", encoder_folder, "-t", "it"});
  const Outcome outcome = gpux_.run({"embed", "--model", "it", "w1", "--memory", "1000"});
  EXPECT_THAT(outcome.err, HasSubstr("memory"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("ran on encoder")));
}

// Neither by a package with a requested provider, nor by a file that was never packaged.
TEST_F(OwnProvider, IsComparedOnlyForAuto) {
  (void)run({"import", encoder_folder, "-t", "it", "--provider", "cpu"});
  EXPECT_FALSE(Json::parse(run({"inspect", "it", "--json"}).out).at("package").contains("compared_provider"));
  EXPECT_THAT(run({"embed", "--model", "it", "w1"}).err, HasSubstr("ran on cpu ("));
}

TEST_F(OwnProvider, IsNotTakenForAPartOfAModel) {
  const std::string folder = import_task_folder(gpux_.folder(), "classify-bert").string();
  (void)run({"import", folder, "-t", "it"});
  const Json found = compared("it");
  EXPECT_THAT(found.at("difference").get<std::string>(), HasSubstr("it claims "));
  const std::string report = run({"run", "it", "w1"}).err;
  EXPECT_THAT(report, HasSubstr("ran on cpu ("));
  EXPECT_THAT(report, HasSubstr("; not encoder: it claims "));
  EXPECT_THAT(report, HasSubstr("--provider encoder"));
}

}  // namespace
}  // namespace gpux::test
