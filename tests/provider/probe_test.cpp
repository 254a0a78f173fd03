#include "provider/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/made_machine.h"

namespace gpux::provider {
namespace {

using test::MadeMachine;

constexpr const char* nothing = "env HOME=/root\n";
constexpr const char* nvidia = "env HOME=/root\npci 0000:01:00.0 10de:2330 030200\n";
constexpr const char* amd = "env HOME=/root\npci 0000:01:00.0 1002:744c 030000\n";
constexpr const char* intel = "env HOME=/root\npci 0000:00:02.0 8086:7d55 030000\n";

ProviderReport report_of(const std::string& id, const Machine& machine, const std::vector<ort::CoreFile>& cores = {}) {
  const std::vector<std::string> ids{id};
  return survey(ids, cores, {}, machine).front();
}

// What is not installed is worth installing only where the hardware for it is.
TEST(Survey, TellsHardwareThatIsNotHereFromSoftwareThatIsNotInstalled) {
  struct Case {
    const char* id;
    const char* machine;
    bool is_here;
  };

  const Case cases[] = {
      {"cuda", nothing, false},
      {"cuda", amd, false},
      {"cuda", intel, false},
      {"cuda", nvidia, true},
      {"cuda", "env HOME=/root\n/dev/nvidiactl\n", true},
      {"cuda", "env HOME=/root\n/dev/dxg\n", true},
      {"tensorrt", nothing, false},
      {"tensorrt", nvidia, true},
      {"migraphx", nothing, false},
      {"migraphx", nvidia, false},
      {"migraphx", "env HOME=/root\n/dev/nvidiactl\n", false},
      {"migraphx", amd, true},
      // It works on any processor, too.
      {"openvino", nothing, true},
  };
  for (const Case& one : cases) {
    const MadeMachine machine(one.machine);
    const ProviderReport report = report_of(one.id, machine);
    EXPECT_FALSE(report.available) << one.id;
    EXPECT_EQ(report.reason == "not installed", one.is_here) << one.id << ": " << report.reason;
    EXPECT_EQ(report.remedy.empty(), !one.is_here) << one.id << ": " << report.remedy;
    EXPECT_THAT(report.reason, testing::MatchesRegex("not installed|no .* on this machine")) << one.id;
  }
}

TEST(Survey, ComparesVersionsByTheirNumbers) {
  EXPECT_TRUE(is_older("1.24.4", "1.24.10"));
  EXPECT_FALSE(is_older("1.24.10", "1.24.4"));
  EXPECT_TRUE(is_older("1.9.0", "1.24.1"));
  EXPECT_FALSE(is_older("2.0", "1.24.1"));
  EXPECT_FALSE(is_older("1.24.1", "1.24.1"));
  EXPECT_TRUE(is_older("1.24", "1.24.1"));
  EXPECT_FALSE(is_older("1.24.1", "1.24"));
}

TEST(Survey, DoesNotOfferABridgeWithoutItsHardware) {
  const MadeMachine without(nothing), with(nvidia);
  const ort::CoreFile core{.library = without->root / "libonnxruntime.so.1", .bridges = {"cuda"}};
  const ProviderReport report = report_of("cuda", without, {core});
  EXPECT_FALSE(report.available);
  EXPECT_EQ(report.reason, "no NVIDIA GPU on this machine");
  EXPECT_NE(report_of("cuda", with, {core}).reason, report.reason);
}

// The GPUs that CUDA numbers: those whose device files are here, whatever is on the bus.
TEST(Survey, CountsTheNvidiaGpusThatThisProcessMayUse) {
  struct Case {
    const char* machine;
    std::size_t gpus;
  };

  const Case cases[] = {
      {"pci 0000:01:00.0 10de:2330 030200 nvidia\n/dev/nvidiactl\n", 1},
      {"/dev/nvidiactl\n/dev/nvidia0\n/dev/nvidia1\n/dev/nvidia-uvm\n/dev/nvidiamodeset\n", 2},
      {"pci 0000:01:00.0 10de:2330 030200 nvidia\npci 0000:02:00.0 10de:2330 030200 nvidia\n/dev/nvidiactl\n"
       "/dev/nvidia1\n",
       1},
      {"/dev/nvidiactl\n/dev/nvidia0\n/dev/nvidia1\nenv CUDA_VISIBLE_DEVICES=1\n", 1},
      {"/dev/nvidiactl\n/dev/nvidia0\n/dev/nvidia1\nenv CUDA_VISIBLE_DEVICES=1,0\n", 2},
      {"/dev/nvidiactl\n/dev/nvidia0\n/dev/nvidia1\nenv CUDA_VISIBLE_DEVICES=0,-1,1\n", 1},
      {"/dev/nvidiactl\n/dev/nvidia0\n/dev/nvidia1\nenv CUDA_VISIBLE_DEVICES=0,7\n", 1},
      {"/dev/nvidiactl\n/dev/nvidia0\n/dev/nvidia1\nenv CUDA_VISIBLE_DEVICES=GPU-a,GPU-b\n", 2},
      {"/dev/nvidiactl\n/dev/nvidia0\n/dev/nvidia1\nenv CUDA_VISIBLE_DEVICES=MIG-a,MIG-b\n", 1},
      {"/dev/nvidiactl\n/dev/nvidia0\nenv CUDA_VISIBLE_DEVICES=0,1,2\n", 1},
      {"/dev/dxg\n", 1},
  };
  for (const Case& one : cases) {
    const MadeMachine machine(std::string(nothing) + "/usr/lib/libcudnn.so.9\n" + one.machine);
    const ort::CoreFile core{.library = machine->root / "libonnxruntime.so.1", .bridges = {"cuda"}};
    const ProviderReport report = report_of("cuda", machine, {core});
    EXPECT_TRUE(report.available) << one.machine << report.reason;
    ASSERT_EQ(report.devices.size(), one.gpus) << one.machine;
    EXPECT_EQ(report.devices.back().index, one.gpus - 1) << one.machine;
  }
}

}  // namespace
}  // namespace gpux::provider
