#include "base/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/spelling.h"

namespace gpux {
namespace {

// Not read_file(): files of /proc and /sys have no size.
std::optional<std::string> first_line(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  return line;
}

std::uint64_t hexadecimal(const std::optional<std::string>& text) {
  return text ? std::strtoull(text->c_str(), nullptr, 16) : 0;
}

// The folders of this process's cgroup for `controller`, innermost first (v2 has one tree for all).
std::vector<std::filesystem::path> cgroup_folders(const std::string& controller) {
  std::vector<std::filesystem::path> folders;
  std::ifstream stream("/proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3) continue;
    std::filesystem::path root;
    if (parts[1].empty()) {
      root = "/sys/fs/cgroup";
    } else if (const auto names = split(parts[1], ',');
               std::find(names.begin(), names.end(), controller) != names.end()) {
      root = "/sys/fs/cgroup/" + controller;
    } else {
      continue;
    }
    for (std::filesystem::path group = parts[2];; group = group.parent_path()) {
      folders.push_back(root / group.relative_path());
      if (!group.has_relative_path()) break;
    }
  }
  return folders;
}

}  // namespace

std::vector<PciDevice> pci_accelerators() {
  std::vector<PciDevice> devices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/bus/pci/devices", error)) {
    PciDevice device;
    device.class_code = static_cast<std::uint32_t>(hexadecimal(first_line(entry.path() / "class")));
    const std::uint32_t base_class = device.class_code >> 16;
    if (base_class != 0x03 && base_class != 0x12) continue;
    device.address = entry.path().filename();
    device.vendor_id = static_cast<std::uint16_t>(hexadecimal(first_line(entry.path() / "vendor")));
    device.device_id = static_cast<std::uint16_t>(hexadecimal(first_line(entry.path() / "device")));
    devices.push_back(device);
  }
  std::sort(devices.begin(), devices.end(),
            [](const PciDevice& a, const PciDevice& b) { return a.address < b.address; });
  return devices;
}

unsigned usable_processors() {
  unsigned count = std::max(1U, std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0) count = static_cast<unsigned>(CPU_COUNT(&mask));
  for (const auto& folder : cgroup_folders("cpu")) {
    double quota = 0, period = 0;
    if (const auto line = first_line(folder / "cpu.max"); line && line->rfind("max", 0) != 0) {
      std::istringstream(*line) >> quota >> period;
    } else if (const auto v1 = first_line(folder / "cpu.cfs_quota_us")) {
      quota = std::atof(v1->c_str());
      period = std::atof(first_line(folder / "cpu.cfs_period_us").value_or("0").c_str());
    }
    if (quota > 0 && period > 0) count = std::min(count, static_cast<unsigned>(std::ceil(quota / period)));
  }
  return std::max(1U, count);
}

std::string processor_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return {};
}

bool adds_byte_products_exactly() {
  if (!is_x86()) return true;
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    return line.find(" avx512_vnni") != std::string::npos || line.find(" avx_vnni") != std::string::npos;
  }
  return false;
}

std::uint64_t resident_bytes() {
  std::ifstream stream("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  stream >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t usable_memory_bytes() {
  std::uint64_t bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const auto& folder : cgroup_folders("memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      if (const auto line = first_line(folder / name); line && line->rfind("max", 0) != 0) {
        bytes = std::min<std::uint64_t>(bytes, std::strtoull(line->c_str(), nullptr, 10));
      }
    }
  }
  return bytes;
}

}  // namespace gpux
