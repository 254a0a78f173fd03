// Machines of all kinds, as text: what is found on each, which providers run and what is said about it. Everything up
// to the session, which a real provider would make.
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/made_machine.h"
#include "base/spelling.h"
#include "diagnosis/diagnosis.h"
#include "diagnosis/machine_report.h"
#include "ort/core_search.h"
#include "provider/absence.h"
#include "provider/placement.h"
#include "provider/probe.h"
#include "provider/select.h"
#include "provider/table.h"

namespace gpux {
namespace {

using test::MadeMachine;

// What every machine here has: 8 processors, 32 GiB, and a Python that pip installs into.
constexpr const char* common = R"(
env HOME=/home/ada
env PATH=/usr/local/bin:/usr/bin
/usr/local/bin/python3
/usr/local/bin/pip
/usr/local/lib/python3.12/site-packages/
/proc/cpuinfo = model name : Test CPU
/proc/thread-self/status = Cpus_allowed_list: 0-7
/proc/meminfo = MemTotal: 33554432 kB
)";

constexpr const char* empty_bus = R"(
/sys/bus/pci/devices/
)";

constexpr const char* plain_core = R"(
/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.24.4
)";

constexpr const char* cuda_core = R"(
/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.24.4
/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_shared.so
/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_cuda.so
/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_tensorrt.so
)";

constexpr const char* cudnn = R"(
/usr/local/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9
)";

constexpr const char* nvidia_driver = R"(
/proc/driver/nvidia/version = NVRM version: 570.86
/usr/lib/libcuda.so.1
)";

constexpr const char* migraphx_core = R"(
/usr/lib/libonnxruntime.so.1.24.4
/usr/lib/libonnxruntime_providers_migraphx.so
)";

constexpr const char* openvino_core = R"(
/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.24.4
/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_openvino.so
)";

constexpr const char* own_openvino_core = R"(
/home/ada/.gpux/python/openvino/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.24.1
/home/ada/.gpux/python/openvino/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_openvino.so
)";

constexpr const char* two_nvidia_gpus = R"(
pci 0000:01:00.0 10de:2330 030200 nvidia
pci 0000:02:00.0 10de:2330 030200 nvidia
/dev/nvidiactl
/dev/nvidia-uvm
/dev/nvidia0
/dev/nvidia1
)";

constexpr const char* amd_gpu = R"(
pci 0000:03:00.0 1002:744c 030000 amdgpu
/dev/kfd
/dev/dri/renderD128
/sys/module/amdgpu/version = 6.12.12
)";

constexpr const char* intel_gpu = R"(
pci 0000:00:02.0 8086:7d55 030000 i915
/sys/module/i915/
)";

constexpr const char* intel_npu = R"(
pci 0000:00:0b.0 8086:7d1d 120000 intel_vpu
/dev/accel/accel0
/sys/module/intel_vpu/
)";

constexpr const char* no_npu =
    "ran on cpu (1 of 1 nodes); asked for npu; not vitisai: not installed (remedy: install AMD's Ryzen AI software, "
    "which brings an ONNX Runtime with VitisAI); not qnn: not installed (remedy: gpux providers install qnn); not "
    "directml: runs on windows only";
constexpr const char* usable = "ok: readable and writable";
constexpr const char* absent = "absent: not here";
constexpr const char* not_installed = "not installed";

/// One machine and what gpux makes of it.
struct Case {
  const char* name;
  std::vector<const char*> parts;                ///< of its text, behind `common`
  std::map<std::string, std::string> providers;  ///< by id: "available" with its devices, or what is missing
  std::map<std::string, std::string> lines;      ///< by request: the verdict, where every node runs on the first choice
  std::map<std::string, std::string> checks;     ///< of the doctor, by name: state and what was found or is to be done
  std::vector<unsigned> devices = {0};           ///< by index, of what auto runs on
};

std::string text_of(const Case& one) {
  std::string text = common;
  for (const char* part : one.parts) text += part;
  return text;
}

std::vector<ProviderReport> survey_all(const Machine& machine) {
  std::vector<std::string> ids;
  for (const provider::ProviderRow& row : provider::table()) ids.emplace_back(row.id);
  return provider::survey(ids, ort::find_cores(machine), provider::find_plugins({}, machine), machine);
}

// What a session that runs everything on the provider chosen first would report.
Verdict verdict_of(const std::string& text, const Machine& machine) {
  const provider::Request request = provider::parse_request(text);
  const std::vector<std::string> ids = provider::order_of(request, provider::System::linux_);
  const std::vector<ProviderReport> reports =
      provider::survey(ids, ort::find_cores(machine), provider::find_plugins({}, machine), machine);
  const auto core = provider::core_for(request, reports, provider::System::linux_);
  const provider::Selection selection = provider::select(request, reports, provider::System::linux_, core);
  Verdict verdict = provider::planned_verdict(request, selection, reports);
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome != ProviderAttempt::Outcome::active) continue;
    provider::apply_placement({{.provider = attempt.ort_name, .name = {}, .domain = {}, .operator_type = {}}}, {},
                              verdict);
    break;
  }
  return verdict;
}

std::vector<diagnosis::Check> checks_of(const Machine& machine) {
  std::vector<diagnosis::Check> checks;
  for (const auto& more : {diagnosis::check_devices(machine), diagnosis::check_drivers(machine),
                           diagnosis::check_plugins(provider::find_plugins({}, machine), machine),
                           diagnosis::check_providers(survey_all(machine), nullptr)}) {
    checks.insert(checks.end(), more.begin(), more.end());
  }
  return checks;
}

std::string describe(const ProviderReport& report) {
  return report.available ? "available: " + diagnosis::device_list(report.devices) : report.reason;
}

std::string describe(const diagnosis::Check& check) {
  std::string text = fmt::format("{}: {}", to_string(check.state), check.found);
  if (!check.next.empty()) text += " -> " + check.next;
  return text;
}

// Those of the provider that runs the model: `serve --workers devices` makes a session on each.
std::vector<unsigned> devices_of(const Verdict& verdict) {
  std::vector<unsigned> indices;
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (verdict.active.empty() || attempt.id != verdict.active.front()) continue;
    for (const Device& device : attempt.devices) indices.push_back(device.index);
  }
  return indices;
}

void expect(const Case& one) {
  SCOPED_TRACE(one.name);
  const MadeMachine made(text_of(one));
  const Machine& machine = made;
  std::map<std::string, std::string> providers, lines, checks;
  for (const ProviderReport& report : survey_all(machine)) {
    if (one.providers.contains(report.id)) providers[report.id] = describe(report);
  }
  for (const auto& [request, line] : one.lines) lines[request] = to_line(verdict_of(request, machine));
  for (const diagnosis::Check& check : checks_of(machine)) {
    if (one.checks.contains(check.name)) checks[check.name] = describe(check);
  }
  EXPECT_EQ(providers, one.providers);
  EXPECT_EQ(lines, one.lines);
  EXPECT_EQ(checks, one.checks);
  EXPECT_EQ(devices_of(verdict_of("auto", machine)), one.devices);
}

TEST(Machines, WithNvidiaGpus) {
  const std::string idle =
      "ran on cpu (1 of 1 nodes); asked for auto; there is an NVIDIA GPU but tensorrt cannot be used: not installed "
      "(remedy: gpux providers install tensorrt); there is an NVIDIA GPU but tensorrt-rtx cannot be "
      "used: not installed (remedy: gpux providers install tensorrt-rtx); there is an NVIDIA GPU but cuda "
      "cannot "
      "be used: not installed (remedy: gpux providers install cuda)";
  const std::vector<Case> cases{
      {"two GPUs with driver and libraries",
       {two_nvidia_gpus, nvidia_driver, cuda_core, cudnn},
       {{"tensorrt", "libnvinfer.so.10: not found (libonnxruntime_providers_tensorrt.so needs it)"},
        {"tensorrt-rtx", not_installed},
        {"cuda", "available: gpu 0, gpu 1"},
        {"migraphx", "no AMD GPU on this machine"},
        {"cpu", "available: cpu 0: Test CPU"}},
       {{"auto", "ran on cuda (1 of 1 nodes); asked for auto"},
        {"gpu", "ran on cuda (1 of 1 nodes); asked for gpu"},
        {"cuda", "ran on cuda (1 of 1 nodes); asked for cuda"},
        {"tensorrt",
         "ran on cuda (1 of 1 nodes); asked for tensorrt; not tensorrt: libnvinfer.so.10: not found "
         "(libonnxruntime_providers_tensorrt.so needs it) (remedy: gpux providers install "
         "tensorrt)"},
        {"npu", no_npu}},
       {{"0000:01:00.0", "ok: NVIDIA 10de:2330, driver nvidia"},
        {"0000:02:00.0", "ok: NVIDIA 10de:2330, driver nvidia"},
        {"/dev/nvidiactl", usable},
        {"/dev/nvidia1", usable},
        {"NVIDIA kernel driver", "ok: NVRM version: 570.86"},
        {"libcuda.so.1", "ok: the loader finds it"},
        {"kernel module amdgpu", absent},
        {"cuda", "ok: gpu 0, gpu 1"}},
       {0, 1}},
      {"two GPUs, one of them for this process",
       {two_nvidia_gpus, nvidia_driver, cuda_core, cudnn, "env CUDA_VISIBLE_DEVICES=1\n"},
       {{"cuda", "available: gpu 0"}},
       {{"auto", "ran on cuda (1 of 1 nodes); asked for auto"}},
       {}},
      {"without cuDNN",
       {two_nvidia_gpus, nvidia_driver, cuda_core},
       {{"tensorrt", "libnvinfer.so.10, libcudnn.so.9: not found (libonnxruntime_providers_tensorrt.so needs them)"},
        {"cuda", "libcudnn.so.9: not found (libonnxruntime_providers_cuda.so needs it)"}},
       {{"cuda",
         "ran on cpu (1 of 1 nodes); asked for cuda; not cuda: libcudnn.so.9: not found "
         "(libonnxruntime_providers_cuda.so needs it) (remedy: gpux providers install cuda)"}},
       {{"cuda",
         "problem: libcudnn.so.9: not found (libonnxruntime_providers_cuda.so needs it) -> gpux providers install "
         "cuda"}}},
      {"with the driver and a plain ONNX Runtime",
       {two_nvidia_gpus, nvidia_driver, plain_core},
       {{"tensorrt", not_installed}, {"cuda", not_installed}},
       {{"auto", idle}, {"npu", no_npu}},
       {{"cuda", "absent: not installed -> gpux providers install cuda"}}},
      {"without a driver",
       {"pci 0000:01:00.0 10de:2330 030200\n", plain_core},
       {{"cuda", not_installed}},
       {{"auto", idle}},
       {{"0000:01:00.0", "problem: NVIDIA 10de:2330, no driver is bound to it -> sudo apt install nvidia-driver"},
        {"NVIDIA kernel driver", "problem: not here, and the hardware needs it -> sudo apt install nvidia-driver"},
        {"libcuda.so.1", "problem: not here, and the hardware needs it -> sudo apt install libcuda1"}}},
      {"with libraries, without a driver",
       {"pci 0000:01:00.0 10de:2330 030200\n", cuda_core, cudnn},
       {{"cuda", "the driver of the NVIDIA GPU is not loaded here: no /dev/nvidiactl"}},
       {{"cuda",
         "ran on cpu (1 of 1 nodes); asked for cuda; not cuda: the driver of the NVIDIA GPU is not loaded "
         "here: no /dev/nvidiactl (remedy: sudo apt install nvidia-driver; a container is given its GPUs by docker run "
         "--gpus all)"}},
       {}},
      // The toolkit's containers have the files of the GPUs that they were given.
      {"a container that sees no bus",
       {"/dev/nvidiactl\n/dev/nvidia3\n", nvidia_driver, cuda_core, cudnn},
       {{"cuda", "available: gpu 0"}},
       {{"auto", "ran on cuda (1 of 1 nodes); asked for auto"}},
       {{"PCI bus", "unknown: there is none to read, as in some containers"},
        {"/dev/nvidia3", usable},
        {"NVIDIA kernel driver", "ok: NVRM version: 570.86"},
        {"libcuda.so.1", "ok: the loader finds it"}}},
      {"Windows's Linux",
       {empty_bus, "/dev/dxg\n/usr/lib/libcuda.so.1\n", cuda_core, cudnn},
       {{"cuda", "available: gpu 0"}},
       {{"auto", "ran on cuda (1 of 1 nodes); asked for auto"}},
       {{"/dev/dxg", usable}, {"NVIDIA kernel driver", absent}, {"libcuda.so.1", "ok: the loader finds it"}}},
  };
  for (const Case& one : cases) expect(one);
}

TEST(Machines, WithAmdGpus) {
  const std::vector<Case> cases{
      {"driver, ROCm and MIGraphX",
       {amd_gpu, "/opt/rocm/.info/version = 7.0.1\n", migraphx_core},
       {{"migraphx", "available: gpu 0 (driver 6.12.12)"}, {"cuda", "no NVIDIA GPU on this machine"}},
       {{"auto", "ran on migraphx (1 of 1 nodes); asked for auto"},
        {"gpu", "ran on migraphx (1 of 1 nodes); asked for gpu"},
        {"rocm",
         "ran on migraphx (1 of 1 nodes); asked for rocm; ONNX Runtime removed its ROCm provider in 1.23: 'rocm' means "
         "migraphx"},
        {"cuda", "ran on cpu (1 of 1 nodes); asked for cuda; not cuda: no NVIDIA GPU on this machine"}},
       {{"0000:03:00.0", "ok: AMD 1002:744c, driver amdgpu"},
        {"/dev/kfd", usable},
        {"/dev/dri/renderD128", usable},
        {"kernel module amdgpu", "ok: 6.12.12"},
        {"ROCm", "ok: 7.0.1"},
        {"migraphx", "ok: gpu 0 (driver 6.12.12)"}}},
      {"a container that sees no bus",
       {"/dev/kfd\n/dev/dri/renderD128\n", migraphx_core},
       {{"migraphx", "available: gpu 0"}},
       {{"auto", "ran on migraphx (1 of 1 nodes); asked for auto"}},
       {}},
      {"a container that was not given its GPU",
       {"pci 0000:03:00.0 1002:744c 030000 amdgpu\n", migraphx_core},
       {{"migraphx", "the driver of the AMD GPU is not loaded here: no /dev/kfd"}},
       {},
       {}},
      {"neither driver nor ROCm",
       {"pci 0000:03:00.0 1002:744c 030000\n", plain_core},
       {{"migraphx", not_installed}},
       {{"auto",
         "ran on cpu (1 of 1 nodes); asked for auto; there is an AMD GPU but migraphx cannot be used: not installed "
         "(remedy: gpux providers install migraphx; it needs AMD's ROCm)"},
        {"gpu",
         "ran on cpu (1 of 1 nodes); asked for gpu; not tensorrt, tensorrt-rtx, cuda: no NVIDIA GPU on this machine; "
         "not migraphx: not installed (remedy: gpux providers install migraphx; it needs AMD's ROCm); not openvino: "
         "not "
         "installed (remedy: gpux providers install openvino); not webgpu: not installed (remedy: gpux providers "
         "install "
         "webgpu)"}},
       {{"0000:03:00.0", "problem: AMD 1002:744c, no driver is bound to it"},
        {"kernel module amdgpu", "problem: not here, and the hardware needs it -> sudo modprobe amdgpu"},
        {"ROCm",
         "problem: not here, and the hardware needs it -> install ROCm by AMD's instructions (amdgpu-install "
         "--usecase=rocm)"},
        {"Vulkan drivers", "problem: not here, and the hardware needs it -> sudo apt install mesa-vulkan-drivers"}}},
  };
  for (const Case& one : cases) expect(one);
}

TEST(Machines, WithIntelGpus) {
  const std::vector<Case> cases{
      {"a GPU with its device files",
       {intel_gpu, "/dev/dri/card0\n/dev/dri/renderD128\n", openvino_core},
       {{"openvino", "available: gpu 0: GPU, cpu 1: Test CPU"}},
       {{"auto", "ran on openvino (1 of 1 nodes); asked for auto"},
        {"gpu", "ran on openvino (1 of 1 nodes); asked for gpu"},
        {"npu", no_npu}},
       {{"0000:00:02.0", "ok: Intel 8086:7d55, driver i915"},
        {"/dev/dri/renderD128", usable},
        {"kernel module i915", "ok: loaded, version unknown"},
        {"OpenCL drivers", "problem: not here, and the hardware needs it -> sudo apt install intel-opencl-icd"},
        {"openvino", "ok: gpu 0: GPU, cpu 1: Test CPU"}},
       {0, 1}},
      {"two GPUs",
       {intel_gpu, "pci 0000:03:00.0 8086:56a0 030000 i915\n/dev/dri/renderD128\n/dev/dri/renderD129\n", openvino_core},
       {{"openvino", "available: gpu 0: GPU.0, gpu 1: GPU.1, cpu 2: Test CPU"}},
       {{"auto", "ran on openvino (1 of 1 nodes); asked for auto"}},
       {{"/dev/dri/renderD129", usable}},
       {0, 1, 2}},
      // As in a container that was not given them: OpenVINO then has the processor alone.
      {"a GPU without its device files",
       {intel_gpu, openvino_core},
       {{"openvino", "available: cpu 0: Test CPU"}},
       {{"auto", "ran on cpu (1 of 1 nodes); asked for auto"},
        {"gpu",
         "ran on cpu (1 of 1 nodes); asked for gpu; not tensorrt, tensorrt-rtx, cuda: no NVIDIA GPU on this machine; "
         "not migraphx: no AMD GPU on this machine; not openvino: only on a processor or software adapter here "
         "(remedy: "
         "ask for it by name: provider openvino); not webgpu: not installed (remedy: gpux providers install "
         "webgpu)"},
        {"openvino", "ran on openvino (1 of 1 nodes); asked for openvino"}},
       {{"0000:00:02.0", "ok: Intel 8086:7d55, driver i915"}}},
      {"beside NVIDIA's",
       {intel_gpu, "/dev/dri/renderD128\n", two_nvidia_gpus, nvidia_driver, cuda_core, cudnn, own_openvino_core},
       {{"cuda", "available: gpu 0, gpu 1"}, {"openvino", "available: gpu 0: GPU, cpu 1: Test CPU"}},
       {{"auto", "ran on cuda (1 of 1 nodes); asked for auto"},
        {"openvino", "ran on openvino (1 of 1 nodes); asked for openvino"}},
       {},
       {0, 1}},
  };
  for (const Case& one : cases) expect(one);
}

TEST(Machines, WithNpus) {
  const std::string vitisai =
      "/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_vitisai.so\n";
  const std::string cann =
      "/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_cann.so\n";
  const std::vector<Case> cases{
      // OpenVINO lists an NPU only when it is opened, so the request for any NPU does not reach it.
      {"Intel's with its driver",
       {intel_npu, openvino_core},
       {{"openvino", "available: cpu 0: Test CPU"}},
       {{"auto", "ran on cpu (1 of 1 nodes); asked for auto"},
        {"npu", no_npu},
        {"openvino", "ran on openvino (1 of 1 nodes); asked for openvino"}},
       {{"0000:00:0b.0", "ok: Intel 8086:7d1d, driver intel_vpu"},
        {"/dev/accel/accel0", usable},
        {"kernel module intel_vpu", "ok: loaded, version unknown"}}},
      {"Intel's without its driver",
       {"pci 0000:00:0b.0 8086:7d1d 120000\n", plain_core},
       {{"openvino", not_installed}},
       {{"npu", no_npu}},
       {{"0000:00:0b.0", "problem: Intel 8086:7d1d, no driver is bound to it"}, {"kernel module intel_vpu", absent}}},
      {"AMD's with its ONNX Runtime",
       {"pci 0000:c4:00.1 1022:17f0 118000 amdxdna\npci 0000:c4:00.7 1022:15e4 118000\n/dev/accel/accel0\n"
        "/sys/module/amdxdna/\n",
        plain_core, vitisai.c_str()},
       {{"vitisai", "available: npu 0"}, {"migraphx", "no AMD GPU on this machine"}},
       {{"auto", "ran on cpu (1 of 1 nodes); asked for auto"},
        {"npu",
         "ran on vitisai (1 of 1 nodes); asked for npu; not qnn: not installed (remedy: gpux providers install qnn); "
         "not directml: runs on windows only"}},
       {{"0000:c4:00.1", "ok: AMD 1022:17f0, driver amdxdna"},
        {"/dev/accel/accel0", usable},
        {"kernel module amdxdna", "ok: loaded, version unknown"}}},
      {"Qualcomm's plugin",
       {empty_bus, plain_core, "/home/ada/.gpux/providers/libonnxruntime_providers_qnn_plugin.so\n"},
       {{"qnn", "available: "}},
       {{"npu",
         "ran on qnn (1 of 1 nodes); asked for npu; not vitisai: not installed (remedy: install AMD's Ryzen AI "
         "software, "
         "which brings an ONNX Runtime with VitisAI); not directml: runs on windows only"},
        {"qnn", "ran on qnn (1 of 1 nodes); asked for qnn"}},
       {}},
      {"Huawei's",
       {"pci 0000:01:00.0 19e5:d802 120000 davinci\n", plain_core, cann.c_str()},
       {{"cann", "available: npu 0"}},
       {{"auto", "ran on cpu (1 of 1 nodes); asked for auto"}, {"cann", "ran on cann (1 of 1 nodes); asked for cann"}},
       {{"0000:01:00.0", "ok: Huawei 19e5:d802, driver davinci"}}},
  };
  for (const Case& one : cases) expect(one);
}

TEST(Machines, WithoutAccelerators) {
  const std::vector<Case> cases{
      {"an ONNX Runtime",
       {empty_bus, plain_core},
       {{"cuda", "no NVIDIA GPU on this machine"},
        {"openvino", not_installed},
        {"coreml", "runs on macos only"},
        {"cpu", "available: cpu 0: Test CPU"}},
       {{"auto", "ran on cpu (1 of 1 nodes); asked for auto"},
        {"cuda", "ran on cpu (1 of 1 nodes); asked for cuda; not cuda: no NVIDIA GPU on this machine"},
        {"npu", no_npu}},
       {{"accelerators", "absent: none on the PCI bus, no device files"},
        {"NVIDIA kernel driver", absent},
        {"libcuda.so.1", absent},
        {"Vulkan drivers", absent},
        {"cuda", "absent: no NVIDIA GPU on this machine"}}},
      {"no ONNX Runtime",
       {empty_bus},
       {{"cpu", "no ONNX Runtime found"}},
       {{"auto", "ran nowhere; asked for auto"}},
       {{"cpu", "problem: no ONNX Runtime found -> gpux providers install cpu"}},
       {}},
  };
  for (const Case& one : cases) expect(one);
}

TEST(Machines, OfAContainerAreReportedWithItsLimits) {
  const MadeMachine machine(std::string(common) +
                            "/proc/self/cgroup = 0::/\n/sys/fs/cgroup/cpu.max = 150000 100000\n"
                            "/sys/fs/cgroup/memory.max = 2147483648\n/dev/nvidiactl\n");
  const diagnosis::Json json = diagnosis::machine_json(machine);
  EXPECT_EQ(json["processor"], "Test CPU");
  EXPECT_EQ(json["processors"], 2);
  EXPECT_EQ(json["memory_bytes"], 2147483648);
  EXPECT_EQ(json["accelerators"], nullptr);
  using Row = std::vector<std::string>;
  EXPECT_THAT(diagnosis::machine_rows(machine),
              testing::IsSupersetOf({Row{"processor", "Test CPU"}, Row{"processors usable", "2"},
                                     Row{"accelerators", "unknown: there is no PCI bus to read"}}));
}

TEST(Machines, WithSeveralPackagesOfOnnxRuntime) {
  const std::string packages = "/usr/local/lib/python3.12/site-packages/";
  const std::string record = "/RECORD = onnxruntime/__init__.py,,\\nonnxruntime/capi/libonnxruntime.so.1.24.4,,\n";
  const std::string gpu = packages + "onnxruntime_gpu-1.24.4.dist-info" + record;
  const std::string others = packages + "onnxruntime_genai-0.9.0.dist-info/RECORD = onnxruntime_genai/__init__.py,,\n" +
                             packages +
                             "onnxruntime_ep_webgpu-0.4.0.dist-info/RECORD = onnxruntime_ep_webgpu/__init__.py,,\n";
  EXPECT_TRUE(diagnosis::check_python_packages(MadeMachine(common + gpu + others)).empty());
  const MadeMachine machine(common + gpu + others + packages + "onnxruntime-1.31.1.dist-info" + record);
  const std::vector<diagnosis::Check> checks = diagnosis::check_python_packages(machine);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(describe(checks.front()),
            "problem: onnxruntime, onnxruntime-gpu overwrite each other's files -> pip uninstall -y onnxruntime "
            "onnxruntime-gpu, then pip install the one that you need");
}

// gpux's wheel has the library below site-packages, and the program in bin.
TEST(Machines, UseTheOnnxRuntimeOfThePythonEnvironmentWithGpux) {
  const std::string environment = "/opt/venv/lib/python3.12/site-packages/";
  const MadeMachine made(common + std::string(plain_core) + environment + "gpux/lib/libgpux.so.0\n" + environment +
                         "gpux/lib/gpux/providers/\n" + environment + "onnxruntime/capi/libonnxruntime.so.1.31.1\n" +
                         "/opt/venv/bin/gpux\n");
  for (const char* own : {"/opt/venv/bin/gpux", "/opt/venv/lib/python3.12/site-packages/gpux/lib/libgpux.so.0"}) {
    SCOPED_TRACE(own);
    Machine machine = made;
    machine.own_files = {machine.at(own)};
    const std::vector<ort::CoreFile> cores = ort::find_cores(machine);
    ASSERT_EQ(cores.size(), 2U);
    EXPECT_EQ(cores.front().version, "1.31.1");
    EXPECT_EQ(cores.front().origin, "Python package");
    EXPECT_THAT(ort::own_library_folders(machine), ::testing::Contains(machine.at(environment + "gpux/lib/gpux")));
  }
  // A program elsewhere is not of that environment, unless it is named.
  Machine machine = made;
  machine.own_files = {machine.at("/usr/bin/gpux")};
  EXPECT_EQ(ort::find_cores(machine).front().version, "1.24.4");
  machine.variables->emplace("GPUX_PYTHON_PACKAGES", "/nowhere:" + environment);
  EXPECT_EQ(ort::find_cores(machine).front().version, "1.31.1");
}

// A Python process that imports onnxruntime has one copy of it.
TEST(Machines, UseTheOnnxRuntimeThatPythonImportsBeforeThatBesideGpux) {
  const std::string environment = "/opt/venv/lib/python3.12/site-packages/";
  const MadeMachine made(std::string(common) + "/usr/lib/libgpux.so.0\n/usr/lib/gpux/libonnxruntime.so.1.30.0\n" +
                         environment + "onnxruntime/capi/libonnxruntime.so.1.31.1\n");
  Machine machine = made;
  machine.own_files = {machine.at("/usr/lib/libgpux.so.0")};
  EXPECT_EQ(ort::find_cores(machine).front().version, "1.30.0");
  machine.variables->emplace("GPUX_PYTHON_PACKAGES", environment);
  const std::vector<ort::CoreFile> cores = ort::find_cores(machine);
  ASSERT_EQ(cores.size(), 2U);
  EXPECT_EQ(cores.front().version, "1.31.1");
}

// One command for the same lack, wherever it is printed.
TEST(Machines, AreToldTheSameRemedyEverywhere) {
  const MadeMachine machine(std::string("env HOME=/home/ada\nenv PATH=/usr/bin\n/usr/bin/python3\n"
                                        "/usr/lib/python3/dist-packages/\n/usr/lib/python3.11/EXTERNALLY-MANAGED\n"
                                        "/usr/lib/libonnxruntime.so.1.24.4\n") +
                            two_nvidia_gpus);
  const std::string command = "sudo apt install python3-pip && gpux providers install cuda";
  const Verdict verdict = verdict_of("cuda", machine);
  EXPECT_THAT(to_line(verdict), testing::EndsWith("not cuda: not installed (remedy: " + command + ")"));
  const auto absence = provider::absence_of(verdict);
  ASSERT_TRUE(absence);
  EXPECT_EQ(to_line(*absence), "cuda did not run: not installed; remedy: " + command);
  EXPECT_THAT(verdict_of("auto", machine).notes, testing::Contains(testing::HasSubstr(command + ")")));
  for (const ProviderReport& report : survey_all(machine)) {
    if (report.id == "cuda") {
      EXPECT_EQ(report.remedy, command);
    }
  }
  for (const diagnosis::Check& check : checks_of(machine)) {
    if (check.name == "cuda") {
      EXPECT_EQ(check.next, command);
    }
  }
}

}  // namespace
}  // namespace gpux
