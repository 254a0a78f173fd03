// Generation with keys and values on a device whose memory only runs copy to and from: that of a provider that is built
// into ONNX Runtime, as CUDA is in its bridge. Here WebGPU, on a software Vulkan device.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/software_vulkan.h"
#include "device_generation.h"

namespace gpux::generation {
namespace {

constexpr const char* core = GPUX_DEPS_DIR "/webgpu-core/libonnxruntime.so.1";

class BuiltInCaches : public DeviceCachesTest {
 protected:
  static void SetUpTestSuite() { ::setenv("GPUX_ONNXRUNTIME", core, 1); }

  void SetUp() override {
    if (!std::filesystem::exists(core)) GTEST_SKIP() << "no ONNX Runtime with WebGPU: scripts/setup fetches it";
    const std::string problem = test::use_software_vulkan(GPUX_DEPS_DIR);
    if (!problem.empty()) GTEST_SKIP() << problem;
    DeviceCachesTest::SetUp();
    write_decoder_with_products(model() / "model.onnx");
  }

  static LoadOptions device() { return {.provider = "webgpu", .intra_threads = 1}; }

  // The WebGPU of ONNX Runtime 1.27 computes prompts of some lengths wrongly, wherever keys and values are.
  static std::vector<EngineRequest> prompts_of_one_token() {
    std::vector<EngineRequest> all = requests(8);
    for (EngineRequest& request : all) request.prompt.resize(1);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].prompt.front() = static_cast<std::uint32_t>(20 + 11 * i);
    return all;
  }
};

TEST_F(BuiltInCaches, GiveTheTokensOfTheCpu) {
  const auto there = engine(device());
  EXPECT_THAT(there->verdict().notes, testing::Contains(testing::HasSubstr("keys and values stay on the device")));
  const Outcome expected = generated(*engine(on_cpu()), prompts_of_one_token(), true);
  EXPECT_EQ(generated(*there, prompts_of_one_token(), true).texts, expected.texts);
}

// A run brings the logits of its rows back, and nothing else, however long the texts are.
TEST_F(BuiltInCaches, StayOnTheDevice) {
  GeneratorOptions options;
  options.reuses_prefixes = false;
  const auto there = engine(device(), options);
  std::vector<EngineRequest> one = prompts_of_one_token();
  one.resize(1);
  one.front().settings.max_tokens = 60;
  const Outcome outcome = generated(*there, one, true);
  EXPECT_EQ(outcome.transfers.from_device, outcome.statistics.steps);
  EXPECT_EQ(outcome.transfers.from_device_bytes, outcome.statistics.steps * vocabulary * sizeof(float));
  // Ids and mask.
  EXPECT_LT(outcome.transfers.to_device_bytes, outcome.statistics.steps * 80 * 2 * sizeof(std::int64_t));
}

}  // namespace
}  // namespace gpux::generation
