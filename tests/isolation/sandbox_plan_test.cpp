// What a sandbox allows, from the facts; and the line of the verdict.
#include "isolation/sandbox_plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::isolation {
namespace {

using testing::Contains;
using testing::Each;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

std::vector<std::string> texts(const std::vector<std::filesystem::path>& paths) {
  return {paths.begin(), paths.end()};
}

TEST(SandboxPlan, AllowsTheModelAndLibrariesToBeRead) {
  const SandboxPlan plan = plan_sandbox({.model_files = {"/models/a.onnx", "/models/a.bin"},
                                         .library_files = {"/ops/mine.so"},
                                         .library_folders = {"/opt/provider"},
                                         .uses_accelerators = false});
  for (const char* path :
       {"/models/a.onnx", "/models/a.bin", "/ops/mine.so", "/opt/provider", "/usr/lib", "/proc/self"})
    EXPECT_THAT(texts(plan.readable), Contains(path)) << path;
  // A folder would allow all that is below it.
  for (const char* path : {"/", "/models", "/ops", "/home", "/root", "/etc", "/proc", "/sys", "/tmp", "/var", "/dev"}) {
    EXPECT_THAT(texts(plan.readable), Not(Contains(path))) << path;
  }
  EXPECT_THAT(plan.writable, IsEmpty());
  EXPECT_EQ(texts(plan.devices), std::vector<std::string>{"/dev/null"});
}

TEST(SandboxPlan, AllowsDevicesOnlyWhereTheyAreUsed) {
  const SandboxPlan plan = plan_sandbox({.uses_accelerators = true});
  for (const char* path : {"/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/accel"}) {
    EXPECT_THAT(texts(plan.devices), Contains(path)) << path;
  }
  EXPECT_THAT(texts(plan.devices), Each(StartsWith("/dev/")));
}

TEST(SandboxPlan, AllowsTheCacheAloneToBeWritten) {
  const SandboxPlan plan = plan_sandbox({.cache_directory = "/cache"});
  EXPECT_EQ(texts(plan.writable), std::vector<std::string>{"/cache"});
}

TEST(SandboxPlan, LimitsMemory) {
  struct Case {
    SandboxFacts facts;
    std::optional<std::uint64_t> bytes;
  };

  const std::vector<Case> cases{
      // 8 times the model, and 4 GiB, or 16 GiB with an accelerator's driver.
      {{.uses_accelerators = false, .model_bytes = gib, .machine_bytes = 64 * gib}, 12 * gib},
      {{.uses_accelerators = true, .model_bytes = gib, .machine_bytes = 64 * gib}, 24 * gib},
      // A thread takes memory, too.
      {{.uses_accelerators = false, .model_bytes = gib, .processors = 64, .machine_bytes = 64 * gib}, 14 * gib},
      // Never more than three quarters of the machine's.
      {{.uses_accelerators = false, .model_bytes = 10 * gib, .machine_bytes = 64 * gib}, 48 * gib},
      {{.uses_accelerators = false, .machine_bytes = 64 * gib, .memory_bytes = 1000 * gib}, 48 * gib},
      // The model's limit, and what libraries take; that of a device is another.
      {{.uses_accelerators = false, .machine_bytes = 64 * gib, .memory_bytes = gib}, gib + gib / 2},
      {{.uses_accelerators = true, .machine_bytes = 64 * gib, .memory_bytes = gib}, 16 * gib},
      {{.uses_accelerators = true, .machine_bytes = 64 * gib, .memory_bytes = 20 * gib}, 20 * gib + gib / 2},
      {{.uses_accelerators = false, .machine_bytes = 0}, 4 * gib},
      {{.machine_bytes = 64 * gib, .has_sanitizer = true}, std::nullopt},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(plan_sandbox(cases[i].facts).memory_bytes, cases[i].bytes) << i;
  }
}

TEST(SandboxVariables, AreThoseOfTheMachineAndNoSecrets) {
  for (const char* name :
       {"PATH", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "GPUX_HOME", "GPUX_ONNXRUNTIME", "CUDA_VISIBLE_DEVICES",
        "VK_DRIVER_FILES", "OMP_NUM_THREADS", "XDG_CACHE_HOME", "NEOReadDebugKeys", "ASAN_OPTIONS"}) {
    EXPECT_TRUE(sandbox_keeps_variable(name)) << name;
  }
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "OPENAI_API_KEY", "http_proxy", "HTTPS_PROXY",
                           "HF_TOKEN", "GPUX_API_KEY", "NVIDIA_API_KEY", "GPUX_REGISTRY_PASSWORD", "INTEL_TOKEN",
                           "SSH_AUTH_SOCK", "DATABASE_URL", "PATHS", "", "LC"}) {
    EXPECT_FALSE(sandbox_keeps_variable(name)) << name;
  }
}

TEST(SandboxReport, IsALine) {
  EXPECT_EQ(to_line({.landlock_abi = 7, .filters_system_calls = true, .memory_bytes = 4 * gib, .missing = {}}),
            "sandboxed: Landlock ABI 7, seccomp, memory at most 4.3 GB, results at most 4.3 GB");
  EXPECT_EQ(
      to_line({.landlock_abi = 0, .filters_system_calls = true, .memory_bytes = {}, .missing = {"Landlock: why"}}),
      "sandboxed: seccomp; missing: Landlock: why");
  EXPECT_EQ(to_line({.missing = {"a", "b"}}), "not sandboxed; missing: a; b");
}

}  // namespace
}  // namespace gpux::isolation
