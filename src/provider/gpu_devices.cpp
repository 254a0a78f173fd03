#include "provider/gpu_devices.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "base/spelling.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

constexpr std::uint16_t amd = 0x1002;

std::optional<std::size_t> whole_number(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

Device describe(const NvmlDevice& device, const std::string& driver) {
  return {.kind = "gpu",
          .name = device.name,
          .vendor = "NVIDIA",
          .memory_bytes = device.memory_bytes,
          .driver = driver,
          .architecture = device.compute_capability == 0 ? "" : fmt::format("sm_{}", device.compute_capability),
          .address = device.address};
}

// The value of a line "name value" of the kernel's topology.
std::uint64_t property(const fs::path& file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ') {
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
    }
  }
  return 0;
}

// "gfx1100" of 110000, "gfx90a" of 90010.
std::string amd_architecture(std::uint64_t version) {
  if (version == 0) return {};
  return fmt::format("gfx{}{:x}{:x}", version / 10000, version / 100 % 100, version % 100);
}

struct AmdNode {
  std::size_t number = 0;
  std::string address;
  std::string architecture;
};

// The GPUs of the kernel's topology, which ROCm numbers in this order.
std::vector<AmdNode> amd_nodes(const Machine& machine) {
  std::vector<AmdNode> nodes;
  std::error_code error;
  const fs::path folder = machine.at("/sys/class/kfd/kfd/topology/nodes");
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto number = whole_number(entry->path().filename());
    const fs::path file = entry->path() / "properties";
    if (!number || property(file, "simd_count") == 0) continue;
    const std::uint64_t location = property(file, "location_id");
    nodes.push_back({.number = *number,
                     .address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", property(file, "domain"), location >> 8 & 0xff,
                                            location >> 3 & 0x1f, location & 7),
                     .architecture = amd_architecture(property(file, "gfx_target_version"))});
  }
  std::ranges::sort(nodes, {}, &AmdNode::number);
  return nodes;
}

Device describe(const Machine& machine, const AmdNode& node) {
  const fs::path folder = machine.at("/sys/bus/pci/devices") / node.address;
  return {.kind = "gpu",
          .name = first_line(folder / "product_name"),
          .vendor = "AMD",
          .memory_bytes = std::strtoull(first_line(folder / "mem_info_vram_total").c_str(), nullptr, 10),
          .driver = driver_version(machine, node.address),
          .architecture = node.architecture,
          .address = node.address};
}

// Those that a variable like "0,2" names; all of them where it is not set.
std::vector<Device> visible_ones(std::vector<Device> devices, const std::string& visible) {
  if (visible.empty()) return devices;
  std::vector<Device> kept;
  for (const std::string& word : split(visible, ',')) {
    const auto index = whole_number(word);
    if (!index || *index >= devices.size()) break;
    kept.push_back(devices[*index]);
  }
  return kept;
}

void number(std::vector<Device>& devices) {
  for (std::size_t index = 0; index < devices.size(); ++index) {
    devices[index].index = static_cast<std::uint32_t>(index);
  }
}

}  // namespace

std::vector<Device> cuda_devices(const NvmlReport& nvml, const std::string& visible, const std::string& order) {
  std::vector<Device> all;
  for (const NvmlDevice& device : nvml.devices) all.push_back(describe(device, nvml.driver));
  const bool are_alike = std::ranges::all_of(nvml.devices, [&](const NvmlDevice& device) {
    return device.name == nvml.devices.front().name && device.memory_bytes == nvml.devices.front().memory_bytes;
  });
  const bool is_order_known = are_alike || order == "PCI_BUS_ID";
  const Device unknown{.kind = "gpu", .name = {}, .vendor = "NVIDIA", .driver = nvml.driver};
  const auto by_number = [&](std::size_t index) { return is_order_known ? all[index] : unknown; };
  std::vector<Device> devices;
  if (visible.empty()) {
    for (std::size_t index = 0; index < all.size(); ++index) devices.push_back(by_number(index));
  } else {
    // CUDA stops at the first that there is not, and gives a process one part of a divided GPU at most.
    for (const std::string& word : split(visible, ',')) {
      if (word.starts_with("MIG-")) {
        devices.push_back(unknown);
        break;
      }
      if (const auto index = whole_number(word)) {
        if (*index >= all.size()) break;
        devices.push_back(by_number(*index));
        continue;
      }
      const auto found = std::ranges::find_if(nvml.devices, [&](const NvmlDevice& device) {
        return word.starts_with("GPU-") && device.uuid.starts_with(word);
      });
      if (found == nvml.devices.end()) break;
      devices.push_back(all[static_cast<std::size_t>(found - nvml.devices.begin())]);
    }
  }
  number(devices);
  return devices;
}

std::vector<Device> rocm_devices(const Machine& machine) {
  std::vector<AmdNode> nodes = amd_nodes(machine);
  if (nodes.empty()) {
    for (const PciDevice& device : pci_accelerators(machine)) {
      if (device.vendor_id == amd) nodes.push_back({.number = 0, .address = device.address, .architecture = {}});
    }
  }
  std::vector<Device> devices;
  devices.reserve(nodes.size());
  for (const AmdNode& node : nodes) devices.push_back(describe(machine, node));
  devices = visible_ones(std::move(devices), machine.variable("ROCR_VISIBLE_DEVICES"));
  devices = visible_ones(std::move(devices), machine.variable("HIP_VISIBLE_DEVICES"));
  number(devices);
  return devices;
}

std::string driver_version(const Machine& machine, const std::string& address) {
  std::error_code error;
  const fs::path link = fs::read_symlink(machine.at("/sys/bus/pci/devices") / address / "driver", error);
  if (error) return {};
  return first_line(machine.at("/sys/module") / link.filename() / "version");
}

std::string numbered(std::span<const Device> devices) {
  std::vector<std::string> words;
  for (const Device& device : devices) {
    words.push_back(device.name.empty() ? std::to_string(device.index)
                                        : fmt::format("{} ({})", device.index, device.name));
  }
  return words.empty() ? "none" : join(words);
}

}  // namespace gpux::provider
