#include "base/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include <dlfcn.h>
#include <pwd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/spelling.h"
#include "gpux/error.h"

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

// What is behind "name:" in a file of /proc; empty where no line begins so.
std::string field(const std::filesystem::path& file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t value = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

// Of a list like "0-3,8"; empty where it is none.
std::set<unsigned> listed(const std::string& list) {
  constexpr unsigned most = 1U << 16;
  std::set<unsigned> numbers;
  for (const std::string& range : split(list, ',')) {
    unsigned first = 0;
    const char* const end = range.data() + range.size();
    const auto [behind, error] = std::from_chars(range.data(), end, first);
    if (error != std::errc()) return {};
    unsigned last = first;
    if (behind != end && std::from_chars(behind + 1, end, last).ec != std::errc()) return {};
    for (unsigned number = first; number <= std::min(last, most); ++number) numbers.insert(number);
  }
  return numbers;
}

// The kernel lists as allowed also those that could be plugged in, or are switched off.
unsigned count_allowed_processors(const Machine& machine) {
  std::set<unsigned> allowed = listed(field(machine.at("/proc/thread-self/status"), "Cpus_allowed_list:"));
  if (const auto online = first_line(machine.at("/sys/devices/system/cpu/online"))) {
    std::erase_if(allowed, [numbers = listed(*online)](unsigned number) {
      return !numbers.empty() && !numbers.contains(number);
    });
  }
  return static_cast<unsigned>(allowed.size());
}

// The folders of this process's cgroup for `controller`, innermost first (v2 has one tree for all).
std::vector<std::filesystem::path> cgroup_folders(const Machine& machine, const std::string& controller) {
  std::vector<std::filesystem::path> folders;
  std::ifstream stream(machine.at("/proc/self/cgroup"));
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3) continue;
    std::filesystem::path root;
    if (parts[1].empty()) {
      root = machine.at("/sys/fs/cgroup");
    } else if (const auto names = split(parts[1], ',');
               std::find(names.begin(), names.end(), controller) != names.end()) {
      root = machine.at("/sys/fs/cgroup") / controller;
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

bool loader_opens(const std::filesystem::path& library) {
  return ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

const Machine& Machine::this_one() {
  // Never destroyed: threads of a program that uses the library may outlive main().
  static const Machine& machine = *new Machine;
  return machine;
}

std::filesystem::path Machine::at(const std::filesystem::path& path) const {
  return path.is_absolute() ? root / path.relative_path() : path;
}

std::string Machine::variable(const std::string& name) const {
  if (!variables) return environment_variable(name.c_str());
  const auto found = variables->find(name);
  return found == variables->end() ? std::string() : found->second;
}

std::filesystem::path Machine::home_folder() const {
  if (const std::string home = variable("GPUX_HOME"); !home.empty()) return std::filesystem::absolute(at(home));
  if (const std::string home = variable("HOME"); !home.empty()) return at(home) / ".gpux";
  if (const passwd* user = ::getpwuid(::getuid()); user != nullptr && user->pw_dir != nullptr) {
    return at(user->pw_dir) / ".gpux";
  }
  throw Error(ErrorCode::storage, "neither GPUX_HOME nor HOME is set: set GPUX_HOME to a folder");
}

namespace {

// They call themselves signal processors, as AMD's sensor hubs do. Those that the kernel's amdxdna drives.
bool is_amd_npu(const PciDevice& device) {
  return device.vendor_id == 0x1022 && (device.device_id == 0x1502 || device.device_id == 0x17f0);
}

}  // namespace

std::vector<PciDevice> pci_accelerators(const Machine& machine) {
  std::vector<PciDevice> devices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(machine.at("/sys/bus/pci/devices"), error)) {
    PciDevice device;
    device.class_code = static_cast<std::uint32_t>(hexadecimal(first_line(entry.path() / "class")));
    device.vendor_id = static_cast<std::uint16_t>(hexadecimal(first_line(entry.path() / "vendor")));
    device.device_id = static_cast<std::uint16_t>(hexadecimal(first_line(entry.path() / "device")));
    const std::uint32_t base_class = device.class_code >> 16;
    if (base_class != 0x03 && base_class != 0x12 && !is_amd_npu(device)) continue;
    device.address = entry.path().filename();
    devices.push_back(device);
  }
  std::sort(devices.begin(), devices.end(),
            [](const PciDevice& a, const PciDevice& b) { return a.address < b.address; });
  return devices;
}

std::vector<std::filesystem::path> numbered_files(const Machine& machine, const std::filesystem::path& folder,
                                                  std::string_view prefix) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(machine.at(folder), error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    const bool is_number = std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                                       [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) files.push_back(folder / name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

unsigned usable_processors(const Machine& machine) {
  unsigned count = count_allowed_processors(machine);
  if (count == 0) count = std::max(1U, std::thread::hardware_concurrency());
  for (const auto& folder : cgroup_folders(machine, "cpu")) {
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

std::string processor_name(const Machine& machine) {
  return field(machine.at("/proc/cpuinfo"), "model name");
}

bool adds_byte_products_exactly(const Machine& machine) {
  if (!is_x86()) return true;
  const std::string flags = " " + field(machine.at("/proc/cpuinfo"), "flags");
  return flags.find(" avx512_vnni") != std::string::npos || flags.find(" avx_vnni") != std::string::npos;
}

bool has_avx2(const Machine& machine) {
  return is_x86() && (" " + field(machine.at("/proc/cpuinfo"), "flags") + " ").find(" avx2 ") != std::string::npos;
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

std::uint64_t usable_memory_bytes(const Machine& machine) {
  std::uint64_t bytes = std::strtoull(field(machine.at("/proc/meminfo"), "MemTotal:").c_str(), nullptr, 10) * 1024;
  if (bytes == 0) {
    bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  for (const auto& folder : cgroup_folders(machine, "memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      if (const auto line = first_line(folder / name); line && line->rfind("max", 0) != 0) {
        bytes = std::min<std::uint64_t>(bytes, std::strtoull(line->c_str(), nullptr, 10));
      }
    }
  }
  return bytes;
}

}  // namespace gpux
