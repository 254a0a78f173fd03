#include "diagnosis/device_chain.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/elf.h"
#include "base/files.h"
#include "base/spelling.h"
#include "diagnosis/machine_files.h"
#include "gpux/error.h"
#include "provider/nvml.h"
#include "provider/probe.h"

namespace gpux::diagnosis {
namespace {

namespace fs = std::filesystem;
using State = Check::State;

constexpr std::uint16_t nvidia = 0x10de;
constexpr std::uint16_t amd = 0x1002;
constexpr std::uint16_t intel = 0x8086;

Check link(const char* area, const char* name, State state, std::string found, std::string next = {}) {
  return {.area = area, .name = name, .state = state, .found = std::move(found), .next = std::move(next)};
}

// Of several things that are wrong, the first decides what to do: the later ones may go with it.
std::vector<Check> with_one_next(std::vector<Check> checks) {
  bool is_said = false;
  for (Check& check : checks) {
    if (is_said) check.next.clear();
    is_said = is_said || !check.next.empty();
  }
  return checks;
}

std::string described(const std::string& path, const std::string& version) {
  return version.empty() ? path : fmt::format("{}: {}", version, path);
}

Check core_link(const char* area, const std::string& core, const std::string& version) {
  if (core.empty()) return link(area, "ONNX Runtime", State::problem, "none", "gpux providers install cpu");
  return link(area, "ONNX Runtime", State::ok, described(core, version));
}

Check provider_link(const char* area, const std::string& provider, const std::string& core,
                    const std::string& core_version, const char* next) {
  if (!provider.empty()) return link(area, "provider library", State::ok, provider);
  return link(
      area, "provider library", State::problem,
      core.empty() ? "none" : fmt::format("none: the ONNX Runtime {} here brings none for this hardware", core_version),
      next);
}

constexpr const char* nvidia_area = "NVIDIA: from the driver to ONNX Runtime";

bool driver_allows(const NvidiaFacts& facts, unsigned cuda) {
  return facts.driver.empty() || !provider::is_older(facts.driver, provider::oldest_driver(cuda));
}

// What to install: the packages of the newest CUDA that the driver allows.
const char* installation_for(const NvidiaFacts& facts) {
  return driver_allows(facts, 13) ? "gpux providers install cuda" : "gpux providers install cuda12";
}

Check nvidia_driver(const NvidiaFacts& facts) {
  const char* name = "driver";
  if (!facts.has_driver) {
    return link(nvidia_area, name, State::problem, "not loaded", "sudo apt install nvidia-driver");
  }
  if (!facts.driver_failure.empty()) {
    return link(nvidia_area, name, State::problem, "does not work: " + facts.driver_failure, "sudo reboot");
  }
  if (facts.driver.empty()) return link(nvidia_area, name, State::unknown, "loaded, version unknown");
  if (!driver_allows(facts, 12)) {
    return link(
        nvidia_area, name, State::problem,
        fmt::format("{} is too old for CUDA 12, which needs {} or newer", facts.driver, provider::oldest_driver(12)),
        "sudo apt install nvidia-driver");
  }
  if (facts.cuda != 0 && !driver_allows(facts, facts.cuda)) {
    return link(nvidia_area, name, State::problem,
                fmt::format("{} is too old for CUDA {}, which the provider is made for and which needs {} or newer",
                            facts.driver, facts.cuda, provider::oldest_driver(facts.cuda)),
                installation_for(facts));
  }
  return link(nvidia_area, name, State::ok,
              fmt::format("{}, for CUDA {} and older", facts.driver, driver_allows(facts, 13) ? 13 : 12));
}

// `is_needed`: by a provider that is here; otherwise it may be absent.
Check nvidia_library(const NvidiaFacts& facts, const char* name, const VendorLibrary& library, bool is_needed,
                     const std::string& next) {
  if (library.path.empty()) {
    return link(nvidia_area, name, is_needed ? State::problem : State::absent,
                is_needed ? "not found, and the provider needs it" : "not here", is_needed ? next : std::string());
  }
  const std::string found = described(library.path, library.version);
  if (facts.cuda != 0 && library.cuda != 0 && library.cuda != facts.cuda) {
    return link(nvidia_area, name, State::problem,
                fmt::format("{} is for CUDA {}, and the provider is made for CUDA {}", found, library.cuda, facts.cuda),
                next);
  }
  return link(nvidia_area, name, State::ok,
              library.is_foreign ? found + ", of another Python environment than the provider" : found);
}

constexpr const char* amd_area = "AMD: from the driver to ONNX Runtime";
constexpr const char* intel_area = "Intel: from the driver to ONNX Runtime";

Check present_or(const char* area, const char* name, const std::string& found, const char* lack, const char* next) {
  if (!found.empty()) return link(area, name, State::ok, found);
  return link(area, name, State::problem, lack, next);
}

}  // namespace

std::vector<Check> check_chain(const NvidiaFacts& facts) {
  const bool has_provider = !facts.provider.empty();
  const std::string next = installation_for(facts);
  std::vector<Check> checks{nvidia_driver(facts),
                            nvidia_library(facts, "CUDA runtime", facts.runtime, has_provider, next),
                            nvidia_library(facts, "cuDNN", facts.cudnn, has_provider, next),
                            nvidia_library(facts, "TensorRT", facts.tensorrt, false, "gpux providers install tensorrt"),
                            provider_link(nvidia_area, facts.provider, facts.core, facts.core_version, next.c_str()),
                            core_link(nvidia_area, facts.core, facts.core_version)};
  if (facts.tensorrt.path.empty()) checks[3].found = "not here; only the provider tensorrt needs it";
  return with_one_next(std::move(checks));
}

std::vector<Check> check_chain(const AmdFacts& facts) {
  const std::string driver = facts.driver.empty() ? "loaded, version unknown" : facts.driver;
  return with_one_next(
      {present_or(amd_area, "driver", facts.has_driver ? driver : "", "amdgpu is not loaded", "sudo modprobe amdgpu"),
       present_or(amd_area, "device file", facts.has_device_file ? "/dev/kfd" : "",
                  "/dev/kfd is not here: a container is given it by --device /dev/kfd --device /dev/dri",
                  "docker run --device /dev/kfd --device /dev/dri"),
       present_or(amd_area, "ROCm", facts.rocm, "not here", "amdgpu-install --usecase=rocm"),
       present_or(amd_area, "MIGraphX", facts.migraphx, "not here", "sudo apt install migraphx"),
       provider_link(amd_area, facts.provider, facts.core, facts.core_version, "gpux providers install migraphx"),
       core_link(amd_area, facts.core, facts.core_version)});
}

std::vector<Check> check_chain(const IntelFacts& facts) {
  return with_one_next(
      {present_or(intel_area, "driver", facts.driver, "none is bound to the GPU", "sudo modprobe i915"),
       present_or(intel_area, "device file", facts.has_device_file ? "/dev/dri" : "",
                  "/dev/dri is not here: a container is given it by --device /dev/dri", "docker run --device /dev/dri"),
       present_or(intel_area, "compute runtime", facts.compute_runtime, "no driver of OpenCL or Level Zero",
                  "sudo apt install intel-opencl-icd"),
       provider_link(intel_area, facts.provider, facts.core, facts.core_version, "gpux providers install openvino"),
       core_link(intel_area, facts.core, facts.core_version)});
}

namespace {

// The first word that is a version: "570.86.15" of the line that the kernel driver gives.
std::string version_word(const std::string& line) {
  for (const std::string& word : split(line, ' ')) {
    if (word.empty() || word.find('.') == std::string::npos) continue;
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return {};
}

const ProviderReport* report_of(std::span<const ProviderReport> reports, std::string_view id) {
  const auto found = std::ranges::find(reports, id, &ProviderReport::id);
  return found == reports.end() ? nullptr : &*found;
}

// The provider's library with its core, or the first core where there is no library.
template <class Facts>
void take_provider(Facts& facts, const ProviderReport* report, std::span<const ort::CoreFile> cores) {
  if (report != nullptr) {
    facts.provider = report->library.string();
    facts.core = report->core.string();
  }
  if (facts.core.empty() && !cores.empty()) facts.core = cores.front().library.string();
  for (const ort::CoreFile& core : cores) {
    if (core.library == facts.core) facts.core_version = core.version;
  }
}

// By what it links; where that cannot be read, by the release: onnxruntime-gpu is of CUDA 13 from 1.27 on.
unsigned cuda_of(const fs::path& provider, const std::string& core_version) {
  if (provider.empty()) return 0;
  try {
    const MappedFile file(provider);
    for (const std::string& name : read_elf_needs(file.bytes()).libraries) {
      if (name.starts_with("libcudart.so.")) {
        return static_cast<unsigned>(std::strtoul(name.c_str() + name.rfind('.') + 1, nullptr, 10));
      }
    }
  } catch (const Error&) {
    return 0;  // what it is made for is then not known
  }
  if (core_version.empty()) return 0;
  return provider::is_older(core_version, "1.27") ? 12 : 13;
}

fs::path packages_around(const fs::path& file) {
  for (fs::path folder = file.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (ort::holds_python_packages(folder)) return folder;
  }
  return {};
}

// Version and CUDA by the package that brought it: "nvidia_cudnn_cu13-9.28.1.4.dist-info".
void read_package(const std::string& stem, VendorLibrary& library) {
  const fs::path packages = packages_around(library.path);
  if (packages.empty()) return;
  std::error_code error;
  for (fs::directory_iterator entry(packages, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    const std::size_t dash = name.find('-');
    if (!name.starts_with(stem) || !name.ends_with(".dist-info") || dash == std::string::npos) continue;
    const std::string package = name.substr(0, dash);
    const std::string version = name.substr(dash + 1, name.size() - dash - 1 - std::string_view(".dist-info").size());
    library.version = version;
    if (const std::size_t cuda = package.find("_cu1"); cuda != std::string::npos) {
      library.cuda = static_cast<unsigned>(std::strtoul(package.c_str() + cuda + 3, nullptr, 10));
    }
    return;
  }
}

// As the provider would: in its own Python environment, by the loader, in other environments.
VendorLibrary find_library(const Machine& machine, const fs::path& provider, std::initializer_list<const char*> names,
                           const std::string& package) {
  VendorLibrary library;
  const auto look_in = [&](const std::vector<fs::path>& folders) {
    for (const char* name : names) {
      for (const fs::path& folder : folders) {
        if (library.path.empty() && present(folder / name)) library.path = (folder / name).string();
      }
    }
    return !library.path.empty();
  };
  std::vector<fs::path> own;
  if (!provider.empty()) {
    own = provider::vendor_library_folders_around(provider);
    own.push_back(provider.parent_path());
  }
  if (!look_in(own)) {
    for (const char* name : names) {
      if (library.path.empty() && machine.opens_library(name)) library.path = name;
    }
    if (library.path.empty() && look_in(provider::vendor_library_folders(machine))) {
      library.is_foreign = !provider.empty() && packages_around(provider) != packages_around(library.path);
    }
  }
  read_package(package, library);
  return library;
}

std::string driver_bound_to(const Machine& machine, std::uint16_t vendor) {
  for (const PciDevice& device : pci_accelerators(machine)) {
    if (device.vendor_id != vendor || device.class_code >> 16 != 0x03) continue;
    std::error_code error;
    const fs::path driver = fs::read_symlink(machine.at("/sys/bus/pci/devices") / device.address / "driver", error);
    if (!error) return driver.filename();
  }
  return {};
}

bool has_vendor(const Machine& machine, std::uint16_t vendor) {
  return std::ranges::any_of(pci_accelerators(machine),
                             [&](const PciDevice& device) { return device.vendor_id == vendor; });
}

bool has_intel_gpu(const Machine& machine) {
  return std::ranges::any_of(pci_accelerators(machine), [](const PciDevice& device) {
    return device.vendor_id == intel && device.class_code >> 16 == 0x03;
  });
}

std::string opencl_driver(const Machine& machine) {
  std::error_code error;
  for (fs::directory_iterator entry(machine.at("/etc/OpenCL/vendors"), error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".icd") return "OpenCL: " + entry->path().filename().string();
  }
  return {};
}

}  // namespace

NvidiaFacts nvidia_facts(const Machine& machine, std::span<const ort::CoreFile> cores,
                         std::span<const ProviderReport> reports) {
  NvidiaFacts facts;
  const provider::NvmlReport nvml = provider::read_nvml(machine);
  const std::string kernel = first_line(machine.at("/proc/driver/nvidia/version"));
  facts.has_driver = present(machine.at("/dev/nvidiactl")) || present(machine.at("/dev/dxg")) || !kernel.empty();
  facts.driver = nvml.driver.empty() ? version_word(kernel) : nvml.driver;
  facts.driver_failure = nvml.failure;
  take_provider(facts, report_of(reports, "cuda"), cores);
  facts.cuda = cuda_of(facts.provider, facts.core_version);
  const fs::path provider = facts.provider;
  if (facts.cuda == 12) {
    facts.runtime = find_library(machine, provider, {"libcudart.so.12"}, "nvidia_cuda_runtime");
  } else if (facts.cuda == 13) {
    facts.runtime = find_library(machine, provider, {"libcudart.so.13"}, "nvidia_cuda_runtime");
  } else {
    facts.runtime = find_library(machine, provider, {"libcudart.so.13", "libcudart.so.12"}, "nvidia_cuda_runtime");
  }
  facts.cudnn = find_library(machine, provider, {"libcudnn.so.9"}, "nvidia_cudnn");
  facts.tensorrt = find_library(machine, provider, {"libnvinfer.so.10"}, "tensorrt_cu");
  return facts;
}

AmdFacts amd_facts(const Machine& machine, std::span<const ort::CoreFile> cores,
                   std::span<const ProviderReport> reports) {
  AmdFacts facts;
  facts.has_driver = present(machine.at("/sys/module/amdgpu")) || present(machine.at("/dev/kfd"));
  facts.driver = first_line(machine.at("/sys/module/amdgpu/version"));
  facts.has_device_file = present(machine.at("/dev/kfd"));
  if (present(machine.at("/opt/rocm"))) {
    const std::string version = first_line(machine.at("/opt/rocm/.info/version"));
    facts.rocm = version.empty() ? "/opt/rocm, version unknown" : version;
  }
  for (const char* folder : {"/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu"}) {
    const fs::path library = machine.at(folder) / "libmigraphx_c.so.3";
    if (facts.migraphx.empty() && present(library)) facts.migraphx = library.string();
  }
  if (facts.migraphx.empty() && machine.opens_library("libmigraphx_c.so.3")) facts.migraphx = "libmigraphx_c.so.3";
  take_provider(facts, report_of(reports, "migraphx"), cores);
  return facts;
}

IntelFacts intel_facts(const Machine& machine, std::span<const ort::CoreFile> cores,
                       std::span<const ProviderReport> reports) {
  IntelFacts facts;
  facts.driver = driver_bound_to(machine, intel);
  facts.has_device_file = present(machine.at("/dev/dri"));
  facts.compute_runtime = opencl_driver(machine);
  if (facts.compute_runtime.empty() && machine.opens_library("libze_intel_gpu.so.1")) {
    facts.compute_runtime = "Level Zero: libze_intel_gpu.so.1";
  }
  take_provider(facts, report_of(reports, "openvino"), cores);
  return facts;
}

std::vector<Check> check_chains(const Machine& machine, std::span<const ort::CoreFile> cores,
                                std::span<const ProviderReport> reports) {
  std::vector<Check> checks;
  const auto add = [&](const std::vector<Check>& more) { checks.insert(checks.end(), more.begin(), more.end()); };
  if (has_vendor(machine, nvidia) || present(machine.at("/dev/nvidiactl"))) {
    add(check_chain(nvidia_facts(machine, cores, reports)));
  }
  if (has_vendor(machine, amd) || present(machine.at("/dev/kfd"))) {
    add(check_chain(amd_facts(machine, cores, reports)));
  }
  if (has_intel_gpu(machine)) add(check_chain(intel_facts(machine, cores, reports)));
  return checks;
}

}  // namespace gpux::diagnosis
