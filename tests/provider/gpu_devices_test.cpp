#include "provider/gpu_devices.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/made_machine.h"
#include "base/spelling.h"
#include "provider/probe.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;
using test::MadeMachine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A machine with NVIDIA's management library, which answers what a text says.
class WithNvml {
 public:
  WithNvml(const std::string& machine, const std::string& answers) : machine_(machine) {
    fs::create_directories(machine_->at("/usr/lib"));
    fs::copy_file(MADE_NVML, machine_->at("/usr/lib/libnvidia-ml.so.1"));
    std::ofstream(file()) << answers;
    ::setenv("GPUX_MADE_NVML", file().c_str(), 1);
  }

  ~WithNvml() { ::unsetenv("GPUX_MADE_NVML"); }

  WithNvml(const WithNvml&) = delete;
  WithNvml& operator=(const WithNvml&) = delete;

  [[nodiscard]] const Machine& machine() const { return machine_; }

  [[nodiscard]] std::vector<std::string> calls() const {
    std::ifstream stream(file() + ".calls");
    return {std::istream_iterator<std::string>(stream), {}};
  }

 private:
  [[nodiscard]] std::string file() const { return machine_->at("/nvml").string(); }

  MadeMachine machine_;
};

constexpr const char* two_kinds =
    "driver 570.86\n"
    "gpu 00000000:41:00.0 GPU-b1 25757220864 75 NVIDIA T4\n"
    "gpu 00000000:01:00.0 GPU-a1 85899345920 90 NVIDIA H100 80GB HBM3\n"
    "free 00000000:01:00.0 4096\n";
constexpr const char* two_alike =
    "driver 570.86\n"
    "gpu 00000000:01:00.0 GPU-a1 85899345920 90 NVIDIA H100\n"
    "gpu 00000000:41:00.0 GPU-a2 85899345920 90 NVIDIA H100\n";

TEST(Nvml, DescribesTheGpusByTheirAddresses) {
  const WithNvml with("env HOME=/root\n", two_kinds);
  const NvmlReport report = read_nvml(with.machine());
  EXPECT_TRUE(report.is_open);
  EXPECT_EQ(report.driver, "570.86");
  ASSERT_EQ(report.devices.size(), 2U);
  const NvmlDevice& first = report.devices.front();
  EXPECT_EQ(first.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(first.uuid, "GPU-a1");
  EXPECT_EQ(first.address, "0000:01:00.0");
  EXPECT_EQ(first.memory_bytes, 85899345920U);
  EXPECT_EQ(first.free_bytes, 4096U);
  EXPECT_EQ(first.compute_capability, 90U);
  EXPECT_EQ(report.devices.back().address, "0000:41:00.0");
  EXPECT_THAT(with.calls(), ElementsAre("nvmlInit_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex_v2",
                                        "nvmlShutdown"));
}

TEST(Nvml, IsUnknownWhereItIsNotHereOrNoLibrary) {
  EXPECT_FALSE(read_nvml(MadeMachine("env HOME=/root\n")).is_open);
  EXPECT_FALSE(read_nvml(MadeMachine("/usr/lib/libnvidia-ml.so.1\n")).is_open);
}

std::string names_of(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  for (const Device& device : devices) names.push_back(std::to_string(device.index) + "=" + device.address);
  return join(names, " ");
}

// CUDA's numbers are not NVML's.
TEST(CudaDevices, AreThoseThatCudaNumbers) {
  struct Case {
    const char* gpus;
    const char* visible;
    const char* order;
    const char* devices;
  };

  const Case cases[] = {
      {two_alike, "", "", "0=0000:01:00.0 1=0000:41:00.0"},
      {two_alike, "1", "", "0=0000:41:00.0"},
      {two_alike, "1,0", "", "0=0000:41:00.0 1=0000:01:00.0"},
      {two_alike, "0,-1,1", "", "0=0000:01:00.0"},
      {two_alike, "7", "", ""},
      {two_alike, "GPU-a2", "", "0=0000:41:00.0"},
      {two_alike, "MIG-1,MIG-2", "", "0="},
      {two_alike, "GPU-c", "", ""},
      // The fastest is the first, whichever that is.
      {two_kinds, "", "", "0= 1="},
      {two_kinds, "", "FASTEST_FIRST", "0= 1="},
      {two_kinds, "1", "", "0="},
      {two_kinds, "GPU-b1", "", "0=0000:41:00.0"},
      {two_kinds, "", "PCI_BUS_ID", "0=0000:01:00.0 1=0000:41:00.0"},
      {two_kinds, "1", "PCI_BUS_ID", "0=0000:41:00.0"},
      {"driver 1\n", "", "", ""},
  };
  for (const Case& one : cases) {
    const WithNvml with("env HOME=/root\n", one.gpus);
    EXPECT_EQ(names_of(cuda_devices(read_nvml(with.machine()), one.visible, one.order)), one.devices)
        << one.gpus << one.visible << " " << one.order;
  }
}

constexpr const char* cuda_machine = R"(
env HOME=/root
/dev/nvidiactl
/dev/nvidia0
/dev/nvidia1
/usr/lib/libcudnn.so.9
)";

ProviderReport cuda_on(const Machine& machine) {
  const std::vector<std::string> ids{"cuda"};
  const ort::CoreFile core{
      .library = machine.at("/opt/libonnxruntime.so.1"), .version = {}, .origin = {}, .bridges = {"cuda"}};
  return survey(ids, std::vector<ort::CoreFile>{core}, {}, machine).front();
}

TEST(Bridge, ListsItsDevices) {
  const WithNvml with(cuda_machine, two_alike);
  const ProviderReport report = cuda_on(with.machine());
  ASSERT_TRUE(report.available) << report.reason;
  ASSERT_EQ(report.devices.size(), 2U);
  const Device& device = report.devices.back();
  EXPECT_EQ(device.name, "NVIDIA H100");
  EXPECT_EQ(device.vendor, "NVIDIA");
  EXPECT_EQ(device.kind, "gpu");
  EXPECT_EQ(device.index, 1U);
  EXPECT_EQ(device.memory_bytes, 85899345920U);
  EXPECT_EQ(device.driver, "570.86");
  EXPECT_EQ(device.architecture, "sm_90");
}

TEST(Bridge, IsNotAvailableWithADriverThatDoesNotWork) {
  const WithNvml with(cuda_machine, "init 18\n");
  const ProviderReport report = cuda_on(with.machine());
  EXPECT_FALSE(report.available);
  EXPECT_EQ(report.reason, "the driver of the NVIDIA GPU does not work: Driver/library version mismatch");
  EXPECT_THAT(report.remedy, HasSubstr("nvidia-smi"));
}

TEST(Bridge, CountsDeviceFilesWhereNvmlKnowsNothing) {
  for (const char* answers : {"init 3\n", "driver 570.86\n"}) {
    const WithNvml with(cuda_machine, answers);
    EXPECT_EQ(cuda_on(with.machine()).devices.size(), 2U) << answers;
  }
}

constexpr const char* two_amd_gpus = R"(
env HOME=/root
pci 0000:03:00.0 1002:744c 030000 amdgpu
pci 0000:83:00.0 1002:740f 038000 amdgpu
/sys/bus/pci/devices/0000:83:00.0/product_name = AMD Instinct MI210
/sys/bus/pci/devices/0000:83:00.0/mem_info_vram_total = 68702699520
/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total = 25753026560
/sys/module/amdgpu/version = 6.12.12
)";
constexpr const char* topology = R"(
/sys/class/kfd/kfd/topology/nodes/0/properties = cpu_cores_count 64\nsimd_count 0
/sys/class/kfd/kfd/topology/nodes/1/properties = simd_count 416\ngfx_target_version 90010\nlocation_id 33536\ndomain 0
/sys/class/kfd/kfd/topology/nodes/2/properties = simd_count 192\ngfx_target_version 110000\nlocation_id 768\ndomain 0
)";

TEST(RocmDevices, AreThoseOfTheKernelsTopologyInItsOrder) {
  const MadeMachine machine(std::string(two_amd_gpus) + topology);
  const std::vector<Device> devices = rocm_devices(machine);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "AMD Instinct MI210");
  EXPECT_EQ(devices[0].memory_bytes, 68702699520U);
  EXPECT_EQ(devices[0].driver, "6.12.12");
  EXPECT_EQ(devices[0].architecture, "gfx90a");
  EXPECT_EQ(devices[1].address, "0000:03:00.0");
  EXPECT_EQ(devices[1].architecture, "gfx1100");
  EXPECT_EQ(devices[1].index, 1U);
  const MadeMachine one(std::string(two_amd_gpus) + topology + "env HIP_VISIBLE_DEVICES=1\n");
  EXPECT_EQ(names_of(rocm_devices(one)), "0=0000:03:00.0");
  EXPECT_EQ(names_of(rocm_devices(MadeMachine(two_amd_gpus))), "0=0000:03:00.0 1=0000:83:00.0");
  EXPECT_THAT(rocm_devices(MadeMachine("env HOME=/root\n")), IsEmpty());
}

}  // namespace
}  // namespace gpux::provider
