#include "ort/value_place.h"

#include <algorithm>

namespace gpux::ort {

Place place_of(const MemoryFacts& memory, std::span<const MemoryFacts> plugin_devices) noexcept {
  if (memory.is_host) return Place::host;
  return std::ranges::find(plugin_devices, memory) != plugin_devices.end() ? Place::device : Place::other_device;
}

bool is_written_in_place(const MemoryFacts& memory) noexcept {
  return memory.is_host && !memory.is_pinned;
}

}  // namespace gpux::ort
