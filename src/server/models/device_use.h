#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gpux/verdict.h"
#include "provider/device_memory.h"

namespace gpux::server {

/// The memory of a device that a model takes.
struct DeviceUse {
  std::string provider;  ///< id of the one that its session uses
  Device device;
  std::uint64_t bytes = 0;

  /// Identifies the device: its address, which is the same for all providers, or else provider and index.
  [[nodiscard]] std::string key() const;
};

/// One session of a model on a device.
struct DeviceSession {
  std::string provider;
  Device device;
};

using MemoryOfDevices = std::map<std::string, provider::DeviceMemory>;

/// A use for each device of the sessions, in their order: what is no longer free of it since `before`, or where that is
/// not known or nothing, `session_bytes` for each session. Pure.
std::vector<DeviceUse> device_uses(std::span<const DeviceSession> sessions, std::uint64_t session_bytes,
                                   const MemoryOfDevices& before, const MemoryOfDevices& after);

}  // namespace gpux::server
