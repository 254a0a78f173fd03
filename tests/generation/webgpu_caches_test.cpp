// Generation with keys and values on a software Vulkan device: the tokens of the CPU, in runs that texts share.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "device_generation.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;

/// A software Vulkan device.
class WebGpuCaches : public DeviceCachesTest {
 protected:
  static constexpr const char* loader = GPUX_DEPS_DIR "/vulkan/libvulkan.so.1";
  static constexpr const char* library = GPUX_DEPS_DIR "/webgpu/libonnxruntime_providers_webgpu.so";

  void SetUp() override {
    if (!fs::exists(loader) || !fs::exists(library)) {
      GTEST_SKIP() << "no WebGPU plugin or software Vulkan in " GPUX_DEPS_DIR ": scripts/setup fetches them";
    }
    DeviceCachesTest::SetUp();
    // The plugin opens it by its name.
    ASSERT_NE(::dlopen(loader, RTLD_NOW | RTLD_GLOBAL), nullptr) << ::dlerror();
    ::setenv("VK_ICD_FILENAMES", GPUX_DEPS_DIR "/vulkan/vk_swiftshader_icd.json", 1);
    ::setenv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1", 1);
  }

  static LoadOptions device() { return on("webgpu", library); }
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
  one.front().settings.max_tokens = 60;
  const Outcome outcome = generated(*there, one, true);
  EXPECT_EQ(outcome.transfers.from_device, outcome.statistics.steps);
  EXPECT_EQ(outcome.transfers.from_device_bytes, outcome.statistics.steps * there->vocabulary_size() * sizeof(float));
  // Ids and mask.
  EXPECT_LT(outcome.transfers.to_device_bytes, outcome.statistics.steps * 80 * 2 * sizeof(std::int64_t));
}

}  // namespace
}  // namespace gpux::generation
