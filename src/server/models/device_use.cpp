#include "server/models/device_use.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpux::server {
namespace {

std::uint64_t taken(const std::string& address, const MemoryOfDevices& before, const MemoryOfDevices& after) {
  const auto first = before.find(address);
  const auto then = after.find(address);
  if (first == before.end() || then == after.end() || first->second.free <= then->second.free) return 0;
  return first->second.free - then->second.free;
}

}  // namespace

std::string DeviceUse::key() const {
  return device.address.empty() ? fmt::format("{} {}", provider, device.index) : device.address;
}

std::vector<DeviceUse> device_uses(std::span<const DeviceSession> sessions, std::uint64_t session_bytes,
                                   const MemoryOfDevices& before, const MemoryOfDevices& after) {
  std::vector<DeviceUse> uses;
  for (const DeviceSession& session : sessions) {
    const DeviceUse use{.provider = session.provider, .device = session.device, .bytes = session_bytes};
    const auto known = std::ranges::find(uses, use.key(), &DeviceUse::key);
    if (known == uses.end()) {
      uses.push_back(use);
    } else {
      known->bytes += session_bytes;
    }
  }
  for (DeviceUse& use : uses) {
    if (const std::uint64_t bytes = taken(use.device.address, before, after); bytes != 0) use.bytes = bytes;
  }
  return uses;
}

}  // namespace gpux::server
