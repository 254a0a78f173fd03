#include "provider/device_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "base/memory_size.h"
#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::provider {
namespace {

constexpr std::uint16_t amd = 0x1002;

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

// A device, and how many sessions are on it so far.
struct Candidate {
  DeviceRoom device;
  unsigned sessions = 0;

  // How much is free besides its sessions; empty: none is left.
  [[nodiscard]] std::optional<std::uint64_t> left(std::uint64_t session_bytes) const noexcept {
    // Those without a known size come first, and take turns.
    if (!device.free_bytes) return std::numeric_limits<std::uint64_t>::max() - sessions;
    if (session_bytes != 0 && *device.free_bytes / session_bytes < sessions) return std::nullopt;
    return *device.free_bytes - sessions * session_bytes;
  }

  [[nodiscard]] bool has_room(std::uint64_t session_bytes) const noexcept {
    return left(session_bytes).value_or(0) >= session_bytes;
  }
};

std::string free_sizes(std::span<const DeviceRoom> devices) {
  std::vector<std::string> words;
  words.reserve(devices.size());
  for (const DeviceRoom& device : devices) {
    words.push_back(
        fmt::format("device {}: {}", device.index, device.free_bytes ? format_bytes(*device.free_bytes) : "not known"));
  }
  return join(words);
}

[[noreturn]] void refuse(std::span<const DeviceRoom> devices, std::uint64_t session_bytes, std::size_t number,
                         unsigned count) {
  throw Error(
      ErrorCode::resource_exhausted,
      fmt::format("no device has room for session {} of {}: each is expected to take {}, and free memory was {}",
                  number, count, format_bytes(session_bytes), free_sizes(devices)));
}

// The one with the most memory left; null where none has room.
Candidate* roomiest(std::vector<Candidate>& candidates, std::uint64_t session_bytes) {
  Candidate* best = nullptr;
  for (Candidate& one : candidates) {
    if (!one.has_room(session_bytes)) continue;
    if (best == nullptr || one.left(session_bytes) > best->left(session_bytes)) best = &one;
  }
  return best;
}

}  // namespace

std::map<std::string, DeviceMemory> device_memory(const Machine& machine, const NvmlReport& nvml) {
  std::map<std::string, DeviceMemory> memory;
  for (const NvmlDevice& device : nvml.devices) {
    if (device.address.empty() || device.memory_bytes == 0 || !device.free_bytes) continue;
    memory[device.address] = {.total = device.memory_bytes, .free = *device.free_bytes};
  }
  for (const PciDevice& device : pci_accelerators(machine)) {
    if (device.vendor_id != amd) continue;
    const std::filesystem::path folder = machine.at("/sys/bus/pci/devices") / device.address;
    const auto total = number_in(folder / "mem_info_vram_total");
    const auto used = number_in(folder / "mem_info_vram_used");
    if (!total || !used || *total == 0) continue;
    memory[device.address] = {.total = *total, .free = *total - std::min(*used, *total)};
  }
  return memory;
}

std::map<std::string, DeviceMemory> read_device_memory(const Machine& machine) {
  return device_memory(machine, read_nvml(machine));
}

std::uint64_t expected_session_bytes(std::uint64_t model_bytes) noexcept {
  return model_bytes + model_bytes / 4;
}

SessionPlacement place_sessions(std::span<const DeviceRoom> devices, std::uint64_t session_bytes,
                                std::optional<unsigned> count, std::optional<unsigned> first) {
  SessionPlacement placement;
  std::vector<Candidate> candidates;
  candidates.reserve(devices.size());
  for (const DeviceRoom& device : devices) candidates.push_back({.device = device});
  if (first) {
    placement.devices.push_back(*first);
    for (Candidate& one : candidates) {
      if (one.device.index == *first) one.sessions = 1;
    }
  }
  if (count) {
    while (placement.devices.size() < *count) {
      Candidate* const best = roomiest(candidates, session_bytes);
      if (best == nullptr) refuse(devices, session_bytes, placement.devices.size() + 1, *count);
      ++best->sessions;
      placement.devices.push_back(best->device.index);
    }
    return placement;
  }
  for (const Candidate& one : candidates) {
    if (one.sessions != 0) continue;
    (one.has_room(session_bytes) ? placement.devices : placement.left_out).push_back(one.device.index);
  }
  if (placement.devices.empty()) refuse(devices, session_bytes, 1, 1);
  return placement;
}

}  // namespace gpux::provider
