// Generation with keys and values on a device whose memory only runs copy to and from: that of a provider that is built
// into ONNX Runtime, as CUDA is in its bridge. Here WebGPU, on a software Vulkan device.
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
  }

  static LoadOptions device() { return {.provider = "webgpu", .intra_threads = 1}; }
};

// The WebGPU of ONNX Runtime 1.27 computes prompts of some lengths wrongly: they run token by token.
TEST_F(BuiltInCaches, GiveTheTokensOfTheCpu) {
  const auto there = engine(device());
  EXPECT_THAT(there->verdict().notes, testing::Contains(testing::HasSubstr("prompts run token by token")));
  const Outcome expected = generated(*engine(on_cpu()), requests(8), true);
  EXPECT_EQ(generated(*there, requests(8), true).texts, expected.texts);
}

TEST_F(BuiltInCaches, StayOnTheDevice) {
  expect_copies_of_logits_alone(device());
}

}  // namespace
}  // namespace gpux::generation
