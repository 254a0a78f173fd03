#include "runtime/isolation/sandbox_plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/memory_size.h"
#include "base/spelling.h"

namespace gpux::runtime::isolation {
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
  if (!facts.has_address_sanitizer) plan.memory_bytes = planned_memory(facts);
  return plan;
}

std::string to_line(const SandboxReport& report) {
  std::vector<std::string> applied;
  if (report.landlock_abi != 0) applied.push_back(fmt::format("Landlock ABI {}", report.landlock_abi));
  if (report.filters_system_calls) applied.emplace_back("seccomp");
  if (report.memory_bytes) applied.push_back(fmt::format("memory at most {}", format_bytes(*report.memory_bytes)));
  std::string line = applied.empty() ? std::string("not sandboxed") : fmt::format("sandboxed: {}", join(applied));
  if (!report.missing.empty()) line += fmt::format("; missing: {}", join(report.missing, "; "));
  return line;
}

}  // namespace gpux::runtime::isolation
