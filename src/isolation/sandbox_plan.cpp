#include "isolation/sandbox_plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/memory_size.h"
#include "base/spelling.h"

namespace gpux::isolation {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

// Code, and what describes the machine and the system's libraries. No folder of users' files, and of /proc nothing of
// other processes.
constexpr std::array system_paths{
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
    "/usr/share", "/opt", "/etc/ld.so.cache", "/etc/localtime", "/proc/self", "/proc/cpuinfo", "/proc/meminfo",
    "/proc/stat", "/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/osrelease", "/dev/null",
    "/dev/urandom", "/dev/random", "/sys/devices", "/sys/fs/cgroup", "/sys/kernel/mm", "/sys/class", "/sys/bus",
    // of drivers and devices
    "/usr/local/cuda", "/etc/OpenCL", "/etc/vulkan", "/etc/glvnd", "/etc/drirc", "/sys/dev", "/sys/module",
    "/proc/driver/nvidia", "/proc/devices", "/proc/modules", "/proc/version"};

// /dev/nvidia and its numbers and names are found by their prefix.
constexpr std::array device_paths{"/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/accel", "/dev/dxg"};

constexpr auto kept_variables = std::to_array<std::string_view>(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES",
     "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME",
     "XDG_DATA_DIRS", "XDG_RUNTIME_DIR"});

// Of the system, of gpux and ONNX Runtime, of threads and linear algebra, of vendors, and of sanitizers.
constexpr auto kept_prefixes = std::to_array<std::string_view>({"LC_",          "MALLOC_",
                                                                "GPUX_",        "ORT_",
                                                                "ONNXRUNTIME_", "OMP_",
                                                                "GOMP_",        "KMP_",
                                                                "MKL_",         "DNNL_",
                                                                "ONEDNN_",      "TBB_",
                                                                "OPENBLAS_",    "BLIS_",
                                                                "CUDA_",        "CUDNN_",
                                                                "CUBLAS_",      "NVIDIA_",
                                                                "TRT_",         "TENSORRT_",
                                                                "NCCL_",        "HIP_",
                                                                "HSA_",         "ROCR_",
                                                                "ROCM_",        "ROCBLAS_",
                                                                "MIOPEN_",      "MIGRAPHX_",
                                                                "AMD_",         "AMDGPU_",
                                                                "GPU_",         "RADV_",
                                                                "OPENVINO_",    "OV_",
                                                                "ZE_",          "ZET_",
                                                                "SYCL_",        "ONEAPI_",
                                                                "NEO_",         "IGC_",
                                                                "INTEL_",       "ANV_",
                                                                "VK_",          "VULKAN_",
                                                                "MESA_",        "LIBGL_",
                                                                "OCL_",         "OPENCL_",
                                                                "DAWN_",        "WEBGPU_",
                                                                "QNN_",         "ADSP_",
                                                                "XLNX_",        "VAIP_",
                                                                "DRI_PRIME",    "__NV_",
                                                                "__EGL_",       "EGL_",
                                                                "LP_NUM_",      "XILINX_",
                                                                "XRT_",         "NEOReadDebugKeys",
                                                                "RYZEN_AI_",    "ASCEND_",
                                                                "ASAN_",        "UBSAN_",
                                                                "TSAN_",        "LSAN_"});

// A vendor's variable may be one, as NVIDIA_API_KEY.
constexpr auto words_of_secrets =
    std::to_array<std::string_view>({"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"});

template <typename Paths>
void add(const Paths& paths, std::vector<fs::path>& list) {
  list.insert(list.end(), paths.begin(), paths.end());
}

// What the model needs is not known before its runs: several times its weights, and more where a driver keeps copies.
std::uint64_t default_memory(const SandboxFacts& facts) {
  constexpr std::uint64_t times = 8;
  const std::uint64_t spare = facts.uses_accelerators ? 16 * gib : 4 * gib;
  return times * facts.model_bytes + spare + facts.processors * (gib / 32);
}

std::uint64_t planned_memory(const SandboxFacts& facts) {
  // A thread has a stack, and an arena of the allocator.
  const std::uint64_t of_libraries = gib / 2 + facts.processors * (gib / 32);
  std::uint64_t wanted = default_memory(facts);
  if (facts.memory_bytes) {
    const std::uint64_t given = *facts.memory_bytes + of_libraries;
    // That of an accelerator is not memory of the process.
    wanted = facts.uses_accelerators ? std::max(wanted, given) : given;
  }
  // The server that started the worker has to live.
  const std::uint64_t most = facts.machine_bytes / 4 * 3;
  return most == 0 ? wanted : std::min(wanted, most);
}

}  // namespace

SandboxPlan plan_sandbox(const SandboxFacts& facts) {
  SandboxPlan plan;
  add(system_paths, plan.readable);
  add(facts.model_files, plan.readable);
  add(facts.library_files, plan.readable);
  add(facts.library_folders, plan.readable);
  if (facts.uses_accelerators) add(device_paths, plan.devices);
  plan.devices.emplace_back("/dev/null");
  if (!facts.cache_directory.empty()) plan.writable.push_back(facts.cache_directory);
  if (!facts.has_sanitizer) plan.memory_bytes = planned_memory(facts);
  plan.cache_address_bytes = facts.cache_address_bytes;
  return plan;
}

bool sandbox_keeps_variable(std::string_view name) {
  const auto is_in_name = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  const auto begins_name = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (std::ranges::any_of(words_of_secrets, is_in_name)) return false;
  return std::ranges::find(kept_variables, name) != kept_variables.end() ||
         std::ranges::any_of(kept_prefixes, begins_name);
}

std::string to_line(const SandboxReport& report) {
  std::vector<std::string> applied;
  if (report.landlock_abi != 0) applied.push_back(fmt::format("Landlock ABI {}", report.landlock_abi));
  if (report.filters_system_calls) applied.emplace_back("seccomp");
  if (report.memory_bytes) {
    // Results are in memory that is shared with the server, which gives no more than that.
    applied.push_back(fmt::format("memory at most {0}, results at most {0}", format_bytes(*report.memory_bytes)));
  }
  std::string line = applied.empty() ? std::string("not sandboxed") : fmt::format("sandboxed: {}", join(applied));
  if (!report.missing.empty()) line += fmt::format("; missing: {}", join(report.missing, "; "));
  return line;
}

}  // namespace gpux::isolation
