#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "provider/nvml.h"

namespace gpux::provider {

/// Memory of a GPU's own, in bytes.
struct DeviceMemory {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};

/// By the devices' addresses on the PCI bus ("0000:01:00.0"): NVIDIA's of NVML's report, AMD's as the kernel's driver
/// counts. What is not known is left out.
std::map<std::string, DeviceMemory> device_memory(const Machine& machine, const NvmlReport& nvml);

/// The memory of each device, read from NVML now.
std::map<std::string, DeviceMemory> read_device_memory(const Machine& machine);

/// A device that sessions can be placed on.
struct DeviceRoom {
  unsigned index = 0;                       ///< as in the option `device`
  std::optional<std::uint64_t> free_bytes;  ///< empty: not known
};

struct SessionPlacement {
  std::vector<unsigned> devices;   ///< device of each session, a DeviceRoom::index
  std::vector<unsigned> left_out;  ///< devices without room for one
};

/// What a session is expected to take on its device: the model's files and a quarter more. Pure.
std::uint64_t expected_session_bytes(std::uint64_t model_bytes) noexcept;

/// The devices of the sessions of a model that need `session_bytes` each. Pure.
/// `count` empty: one on each device with room, in order; else so many, each on the device with the most free memory
/// left. A device whose free memory is not known has room. `first`: the index of the device that has the first session
/// already, by its number in `devices`; empty: none. Error resource_exhausted, with the sizes, where they do not fit.
SessionPlacement place_sessions(std::span<const DeviceRoom> devices, std::uint64_t session_bytes,
                                std::optional<unsigned> count, std::optional<unsigned> first);

}  // namespace gpux::provider
