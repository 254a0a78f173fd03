// Generation with keys and values on a software Vulkan device: the tokens of the CPU, in runs that texts share.
#include <cstdint>
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

// A run brings the logits of its rows back, and nothing else, however long the texts are.
TEST_F(WebGpuCaches, StayOnTheDevice) {
  GeneratorOptions options;
  options.reuses_prefixes = false;
  const auto there = engine(device(), options);
  std::vector<EngineRequest> one = requests(1);
  one.front().prompt.resize(1);
  one.front().settings.max_tokens = 60;
  const Outcome outcome = generated(*there, one, true);
  EXPECT_EQ(outcome.transfers.from_device, outcome.statistics.steps);
  EXPECT_EQ(outcome.transfers.from_device_bytes, outcome.statistics.steps * there->vocabulary_size() * sizeof(float));
  // Ids and mask.
  EXPECT_LT(outcome.transfers.to_device_bytes, outcome.statistics.steps * 80 * 2 * sizeof(std::int64_t));
}

}  // namespace
}  // namespace gpux::generation
