// Generation with keys and values on a software Vulkan device: the tokens of the CPU, in runs that texts share.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/software_vulkan.h"
#include "device_generation.h"

namespace gpux::generation {
namespace {

/// A software Vulkan device.
class WebGpuCaches : public DeviceCachesTest {
 protected:
  void SetUp() override {
    const std::string problem = test::use_software_vulkan(GPUX_DEPS_DIR);
    if (!problem.empty()) GTEST_SKIP() << problem;
    DeviceCachesTest::SetUp();
  }

  static LoadOptions device() { return test::on_software_vulkan(GPUX_DEPS_DIR); }
};

TEST_F(WebGpuCaches, GiveTheTokensOfTheCpu) {
  expect_tokens_of_the_cpu(device());
}

TEST_F(WebGpuCaches, GiveTheTokensOfTheCpuInFewSlots) {
  GeneratorOptions options;
  options.max_sequences = 3;
  expect_tokens_of_the_cpu(device(), options);
}

TEST_F(WebGpuCaches, GrowInBlocks) {
  std::vector<EngineRequest> some = requests(2);
  some.front().settings.max_tokens = 270;
  const Outcome expected = generated(*engine(on_cpu()), some, true);
  EXPECT_EQ(generated(*engine(device()), some, true).texts, expected.texts);
}

TEST_F(WebGpuCaches, StayOnTheDevice) {
  expect_copies_of_logits_alone(device());
}

}  // namespace
}  // namespace gpux::generation
