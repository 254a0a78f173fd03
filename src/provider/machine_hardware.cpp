#include "provider/machine_hardware.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "base/spelling.h"
#include "provider/gpu_devices.h"
#include "provider/nvml.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

constexpr DriverFile driver_files[] = {{nvidia_vendor, "/dev/nvidiactl", true},
                                       {nvidia_vendor, "/dev/dxg", true},
                                       {amd_vendor, "/dev/kfd", true},
                                       {amd_vendor, "/dev/dxg", false}};

// A container is given some of the GPUs on the bus: those with a device file. CUDA_VISIBLE_DEVICES names fewer of them.
std::size_t count_nvidia_gpus(const Machine& machine) {
  std::size_t count = numbered_files(machine, "/dev", "nvidia").size();
  if (const std::string visible = machine.variable("CUDA_VISIBLE_DEVICES"); !visible.empty()) {
    // CUDA stops at the first that there is not, and gives a process one part of a divided GPU at most.
    std::size_t named = 0;
    for (const std::string& device : split(visible, ',')) {
      std::size_t index = 0;
      const auto [behind, error] = std::from_chars(device.data(), device.data() + device.size(), index);
      const bool is_index = error == std::errc() && behind == device.data() + device.size();
      if (is_index ? index >= count : !device.starts_with("GPU-") && !device.starts_with("MIG-")) break;
      ++named;
      if (device.starts_with("MIG-")) break;
    }
    count = std::min(count, named);
  }
  return std::max<std::size_t>(count, 1);
}

// NVML knows more than the device files do, and what it does not know they do.
void find_nvidia_gpus(const Machine& machine, Hardware& hardware) {
  const NvmlReport nvml = read_nvml(machine);
  hardware.nvidia_failure = nvml.failure;
  hardware.nvidia_gpus =
      cuda_devices(nvml, machine.variable("CUDA_VISIBLE_DEVICES"), machine.variable("CUDA_DEVICE_ORDER"));
  if (!hardware.nvidia_gpus.empty()) return;
  const std::size_t count = count_nvidia_gpus(machine);
  for (std::uint32_t index = 0; index < count; ++index) {
    hardware.nvidia_gpus.push_back({.kind = "gpu", .name = {}, .vendor = {}, .index = index});
  }
}

}  // namespace

Hardware hardware_of(const Machine& machine) {
  std::error_code error;
  Hardware hardware{.accelerators = pci_accelerators(machine),
                    .drivers = {},
                    .has_graphics_file = fs::exists(machine.at("/dev/dri"), error),
                    .nvidia_gpus = {},
                    .nvidia_failure = {}};
  for (const DriverFile& file : driver_files) {
    if (fs::exists(machine.at(file.path), error)) hardware.drivers.push_back(&file);
  }
  const bool has_nvidia =
      std::ranges::any_of(hardware.drivers, [](const DriverFile* file) { return file->vendor_id == nvidia_vendor; });
  if (has_nvidia) find_nvidia_gpus(machine, hardware);
  return hardware;
}

bool is_vendor_of(const ProviderRow& row, std::uint16_t vendor_id) {
  return std::ranges::find(row.vendor_ids, vendor_id) != row.vendor_ids.end();
}

bool is_here(const ProviderRow& row, const Hardware& hardware) {
  if (row.vendor_ids.empty()) return true;
  return std::ranges::any_of(hardware.accelerators,
                             [&](const PciDevice& device) { return is_vendor_of(row, device.vendor_id); }) ||
         std::ranges::any_of(hardware.drivers, [&](const DriverFile* file) {
           return file->is_vendors_alone && is_vendor_of(row, file->vendor_id);
         });
}

const DriverFile* missing_driver(const ProviderRow& row, const Hardware& hardware) {
  const auto is_of_row = [&](const DriverFile& file) { return is_vendor_of(row, file.vendor_id); };
  if (std::ranges::any_of(hardware.drivers, [&](const DriverFile* file) { return is_of_row(*file); })) return nullptr;
  const auto* const file = std::ranges::find_if(driver_files, is_of_row);
  return file == std::end(driver_files) ? nullptr : file;
}

std::vector<Device> intel_gpus(const Hardware& hardware, const Machine& machine) {
  std::vector<Device> devices;
  if (!hardware.has_graphics_file) return devices;
  for (const PciDevice& device : hardware.accelerators) {
    if (device.vendor_id != 0x8086 || device.class_code >> 16 != 0x03) continue;
    devices.push_back({.kind = "gpu",
                       .name = fmt::format("GPU.{}", devices.size()),
                       .vendor = "Intel",
                       .index = static_cast<std::uint32_t>(devices.size()),
                       .driver = driver_version(machine, device.address),
                       .address = device.address});
  }
  if (devices.size() == 1) devices.front().name = "GPU";
  return devices;
}

}  // namespace gpux::provider
