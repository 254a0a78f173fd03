#include "provider/nvml.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/dynamic_library.h"
#include "base/spelling.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

// NVML's interface as far as it is used, which NVIDIA keeps stable: a function that changes gets a new name.
constexpr int success = 0;
constexpr unsigned max_devices = 256;

struct Memory {
  unsigned long long total, free, used;
};

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_and_vendor_id, subsystem_id;
  char bus_id[32];
};

using Handle = void*;
using Text = std::array<char, 96>;

class Nvml {
 public:
  explicit Nvml(const DynamicLibrary& library) : library_(library) {}

  template <typename... Arguments>
  [[nodiscard]] int call(const char* name, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(library_.symbol(name));
    constexpr int function_not_found = 13;
    return function == nullptr ? function_not_found : function(arguments...);
  }

  [[nodiscard]] std::string words(int code) const {
    const auto function = reinterpret_cast<const char* (*)(int)>(library_.symbol("nvmlErrorString"));
    const char* text = function == nullptr ? nullptr : function(code);
    return text == nullptr ? "code " + std::to_string(code) : std::string(text);
  }

 private:
  const DynamicLibrary& library_;
};

std::string text_of(const Text& text) {
  return {text.data(), ::strnlen(text.data(), text.size())};
}

// "00000000:01:00.0" of NVML is "0000:01:00.0" of the kernel.
std::string address_of(const PciInfo& info) {
  const std::string id(info.bus_id, ::strnlen(info.bus_id, sizeof info.bus_id));
  return lower(id.size() > 12 ? id.substr(id.size() - 12) : id);
}

NvmlDevice describe(const Nvml& nvml, Handle handle) {
  NvmlDevice device;
  Text text{};
  if (nvml.call("nvmlDeviceGetName", handle, text.data(), static_cast<unsigned>(text.size())) == success) {
    device.name = text_of(text);
  }
  if (nvml.call("nvmlDeviceGetUUID", handle, text.data(), static_cast<unsigned>(text.size())) == success) {
    device.uuid = text_of(text);
  }
  PciInfo pci{};
  if (nvml.call("nvmlDeviceGetPciInfo_v3", handle, static_cast<void*>(&pci)) == success)
    device.address = address_of(pci);
  Memory memory{};
  if (nvml.call("nvmlDeviceGetMemoryInfo", handle, static_cast<void*>(&memory)) == success) {
    device.memory_bytes = memory.total;
    device.free_bytes = memory.free;
  }
  int major = 0, minor = 0;
  if (nvml.call("nvmlDeviceGetCudaComputeCapability", handle, &major, &minor) == success && major > 0 && minor >= 0) {
    device.compute_capability = static_cast<unsigned>(major * 10 + minor);
  }
  return device;
}

std::optional<DynamicLibrary> open_library(const Machine& machine) {
  constexpr const char* name = "libnvidia-ml.so.1";
  std::vector<fs::path> files;
  if (machine.root == "/") files.emplace_back(name);
  for (const std::string& folder : split(machine.variable("LD_LIBRARY_PATH"), ':')) {
    if (!folder.empty()) files.push_back(machine.at(folder) / name);
  }
  // Also where Windows's Linux has it, which its loader may not be told of.
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"}) {
    files.push_back(machine.at(folder) / name);
  }
  std::string failure;
  for (const fs::path& file : files) {
    std::error_code error;
    if (file.is_absolute() && !fs::exists(file, error)) continue;
    if (auto library = DynamicLibrary::open(file, failure)) return library;
  }
  return std::nullopt;
}

}  // namespace

std::string_view oldest_driver(unsigned cuda) noexcept {
  return cuda == 12 ? "525" : "580";
}

NvmlReport read_nvml(const Machine& machine) {
  NvmlReport report;
  const auto library = open_library(machine);
  if (!library) return report;
  const Nvml nvml(*library);
  constexpr int driver_not_loaded = 9, version_mismatch = 18, function_not_found = 13;
  if (const int code = nvml.call("nvmlInit_v2"); code != success) {
    if (code == driver_not_loaded || code == version_mismatch) report.failure = nvml.words(code);
    if (code != function_not_found) report.is_open = !report.failure.empty();
    return report;
  }
  report.is_open = true;
  Text text{};
  if (nvml.call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size())) == success) {
    report.driver = text_of(text);
  }
  unsigned count = 0;
  if (nvml.call("nvmlDeviceGetCount_v2", &count) != success) count = 0;
  for (unsigned index = 0; index < std::min(count, max_devices); ++index) {
    Handle handle = nullptr;
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &handle) != success) continue;
    report.devices.push_back(describe(nvml, handle));
  }
  std::ranges::stable_sort(report.devices, {}, &NvmlDevice::address);
  (void)nvml.call("nvmlShutdown");
  return report;
}

}  // namespace gpux::provider
