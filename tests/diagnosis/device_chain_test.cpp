// The chain from a driver to ONNX Runtime: what does not fit, and the one command to type next.
#include "diagnosis/device_chain.h"

#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/made_machine.h"
#include "ort/core_search.h"
#include "provider/probe.h"
#include "provider/table.h"

namespace gpux::diagnosis {
namespace {

using test::MadeMachine;
using testing::HasSubstr;
using testing::IsEmpty;

NvidiaFacts healthy() {
  return {.has_driver = true,
          .driver = "580.65.06",
          .driver_failure = {},
          .runtime = {.path = "/p/libcudart.so.13", .version = "13.0.1", .cuda = 0, .is_foreign = false},
          .cudnn = {.path = "/p/libcudnn.so.9", .version = "9.28.1", .cuda = 13, .is_foreign = false},
          .tensorrt = {},
          .provider = "/p/libonnxruntime_providers_cuda.so",
          .cuda = 13,
          .core = "/p/libonnxruntime.so.1.31.1",
          .core_version = "1.31.1"};
}

std::string next_of(const std::vector<Check>& checks) {
  std::string next;
  for (const Check& check : checks) {
    if (check.next.empty()) continue;
    EXPECT_EQ(next, "") << "a second command: " << check.next;
    next = check.next;
  }
  return next;
}

std::string text_of(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks)
    text += fmt::format("{}: {}: {}\n", check.name, to_string(check.state), check.found);
  return text;
}

TEST(NvidiaChain, HasOneNextCommand) {
  struct Case {
    const char* name;
    void (*change)(NvidiaFacts&);
    const char* problem;  ///< a line of what is said; empty: none is a problem
    const char* next;
  };

  const Case cases[] = {
      {"all well", [](NvidiaFacts&) {}, "", ""},
      {"no driver", [](NvidiaFacts& facts) { facts.has_driver = false; }, "driver: problem: not loaded",
       "sudo apt install nvidia-driver"},
      {"a driver that does not work", [](NvidiaFacts& facts) { facts.driver_failure = "Driver/library mismatch"; },
       "driver: problem: does not work: Driver/library mismatch", "sudo reboot"},
      {"a driver too old for CUDA 13", [](NvidiaFacts& facts) { facts.driver = "570.86.15"; },
       "driver: problem: 570.86.15 is too old for CUDA 13", "gpux providers install cuda12"},
      {"the same driver and CUDA 12",
       [](NvidiaFacts& facts) {
         facts.driver = "570.86.15";
         facts.cuda = facts.cudnn.cuda = 12;
       },
       "", ""},
      {"a driver too old for anything", [](NvidiaFacts& facts) { facts.driver = "470.1"; },
       "driver: problem: 470.1 is too old for CUDA 12", "sudo apt install nvidia-driver"},
      {"no CUDA runtime", [](NvidiaFacts& facts) { facts.runtime = {}; }, "CUDA runtime: problem: not found",
       "gpux providers install cuda"},
      {"no cuDNN", [](NvidiaFacts& facts) { facts.cudnn = {}; }, "cuDNN: problem: not found",
       "gpux providers install cuda"},
      {"neither", [](NvidiaFacts& facts) { facts.cudnn = facts.runtime = {}; }, "cuDNN: problem: not found",
       "gpux providers install cuda"},
      {"cuDNN of another CUDA",
       [](NvidiaFacts& facts) {
         facts.cudnn.cuda = 12;
         facts.cudnn.is_foreign = true;
       },
       "cuDNN: problem: 9.28.1: /p/libcudnn.so.9 is for CUDA 12, and the provider is made for CUDA 13",
       "gpux providers install cuda"},
      {"an ONNX Runtime for CPUs",
       [](NvidiaFacts& facts) {
         facts.provider.clear();
         facts.cuda = 0;
         facts.cudnn = facts.runtime = {};
       },
       "provider library: problem: none: the ONNX Runtime 1.31.1 here brings none for this hardware",
       "gpux providers install cuda"},
      {"the same with an older driver",
       [](NvidiaFacts& facts) {
         facts.driver = "550.54";
         facts.provider.clear();
         facts.cuda = 0;
       },
       "provider library: problem", "gpux providers install cuda12"},
      {"nothing but a driver",
       [](NvidiaFacts& facts) {
         facts = {};
         facts.has_driver = true;
       },
       "ONNX Runtime: problem: none", "gpux providers install cuda"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    NvidiaFacts facts = healthy();
    one.change(facts);
    const std::vector<Check> checks = check_chain(facts);
    EXPECT_EQ(checks.size(), 6U);
    EXPECT_EQ(next_of(checks), one.next);
    EXPECT_THAT(text_of(checks), HasSubstr(one.problem));
    const bool has_problem =
        std::ranges::any_of(checks, [](const Check& check) { return check.state == Check::State::problem; });
    EXPECT_EQ(has_problem, *one.problem != '\0') << text_of(checks);
  }
}

TEST(NvidiaChain, TellsLibrariesOfAnotherEnvironment) {
  NvidiaFacts facts = healthy();
  facts.cudnn.is_foreign = true;
  EXPECT_THAT(text_of(check_chain(facts)), HasSubstr("cuDNN: ok: 9.28.1: /p/libcudnn.so.9, of another Python"));
}

TEST(OtherChains, HaveOneNextCommand) {
  const AmdFacts amd{.has_driver = true,
                     .driver = "6.12",
                     .has_device_file = true,
                     .rocm = "7.0.1",
                     .migraphx = "/opt/rocm/lib/libmigraphx_c.so.3",
                     .provider = "/p/libonnxruntime_providers_migraphx.so",
                     .core = "/p/libonnxruntime.so.1.27.1",
                     .core_version = "1.27.1"};
  EXPECT_EQ(next_of(check_chain(amd)), "");
  AmdFacts lacking = amd;
  lacking.provider.clear();
  EXPECT_EQ(next_of(check_chain(lacking)), "gpux providers install migraphx");
  lacking.rocm.clear();
  EXPECT_EQ(next_of(check_chain(lacking)), "amdgpu-install --usecase=rocm");
  EXPECT_EQ(next_of(check_chain(AmdFacts{})), "sudo modprobe amdgpu");

  IntelFacts intel{.driver = "xe",
                   .has_device_file = true,
                   .compute_runtime = "OpenCL: intel.icd",
                   .provider = "/p/libonnxruntime_providers_openvino.so",
                   .core = "/p/libonnxruntime.so.1.24.1",
                   .core_version = "1.24.1"};
  EXPECT_EQ(next_of(check_chain(intel)), "");
  intel.provider.clear();
  EXPECT_EQ(next_of(check_chain(intel)), "gpux providers install openvino");
  intel.compute_runtime.clear();
  EXPECT_EQ(next_of(check_chain(intel)), "sudo apt install intel-opencl-icd");
}

constexpr const char* common = R"(
env HOME=/home/ada
env PATH=/usr/local/bin
/usr/local/bin/python3
/usr/local/bin/pip
/sys/bus/pci/devices/
)";
constexpr const char* gpu = R"(
pci 0000:01:00.0 10de:2330 030200 nvidia
/dev/nvidiactl
/dev/nvidia0
/proc/driver/nvidia/version = NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan
)";
const std::string packages = "/usr/local/lib/python3.12/site-packages/";
const std::string other = "/home/ada/.local/lib/python3.12/site-packages/";

std::string core(const std::string& version) {
  return packages + "onnxruntime/capi/libonnxruntime.so." + version + "\n" + packages +
         "onnxruntime/capi/libonnxruntime_providers_cuda.so\n";
}

std::string libraries_in(const std::string& folder, const std::string& cuda) {
  return folder + "nvidia/cuda_runtime/lib/libcudart.so." + cuda + "\n" + folder + "nvidia/cudnn/lib/libcudnn.so.9\n" +
         folder + "nvidia_cudnn_cu" + cuda + "-9.28.1.4.dist-info/METADATA\n";
}

std::vector<Check> chain_of(const std::string& text) {
  const MadeMachine machine(common + text);
  std::vector<std::string> ids;
  for (const provider::ProviderRow& row : provider::table()) ids.emplace_back(row.id);
  const std::vector<ort::CoreFile> cores = ort::find_cores(machine);
  return check_chains(machine, cores, provider::survey(ids, cores, provider::find_plugins({}, machine), machine));
}

// From the files of a machine to the command.
TEST(DeviceChain, NamesTheNextCommandForAMachine) {
  struct Case {
    const char* name;
    std::string machine;
    const char* found;
    const char* next;
  };

  const Case cases[] = {
      {"no accelerator", core("1.31.1"), "", ""},
      {"a driver too old for CUDA 13", gpu + core("1.31.1") + libraries_in(packages, "13"),
       "driver: problem: 570.86.15 is too old for CUDA 13", "gpux providers install cuda12"},
      {"all well", gpu + core("1.26.0") + libraries_in(packages, "12"), "cuDNN: ok: 9.28.1.4: ", ""},
      {"cuDNN missing", gpu + core("1.26.0") + "/usr/lib/libcudart.so.12\n", "cuDNN: problem: not found",
       "gpux providers install cuda12"},
      {"cuDNN of another environment", gpu + core("1.26.0") + libraries_in(other, "12"),
       "libcudnn.so.9, of another Python environment", ""},
      {"cuDNN of another environment and CUDA", gpu + core("1.26.0") + libraries_in(other, "13"),
       "is for CUDA 13, and the provider is made for CUDA 12", "gpux providers install cuda12"},
      {"an ONNX Runtime for CPUs", gpu + packages + "onnxruntime/capi/libonnxruntime.so.1.31.1\n",
       "provider library: problem: none", "gpux providers install cuda12"},
      {"an Intel GPU without its compute runtime",
       "pci 0000:00:02.0 8086:7d55 030000 i915\n/dev/dri/renderD128\n" + core("1.31.1"), "compute runtime: problem",
       "sudo apt install intel-opencl-icd"},
      {"an AMD GPU with nothing", "pci 0000:03:00.0 1002:744c 030000\n" + core("1.31.1"), "driver: problem",
       "sudo modprobe amdgpu"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const std::vector<Check> checks = chain_of(one.machine);
    EXPECT_EQ(checks.empty(), *one.found == '\0');
    EXPECT_THAT(text_of(checks), HasSubstr(one.found));
    EXPECT_EQ(next_of(checks), one.next) << text_of(checks);
  }
}

}  // namespace
}  // namespace gpux::diagnosis
