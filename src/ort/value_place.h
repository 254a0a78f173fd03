#pragma once

#include <cstdint>
#include <span>

namespace gpux::ort {

/// Where a session takes an input from, or puts an output.
enum class Place : std::uint8_t {
  host,
  device,        ///< memory that values can be copied to and from outside of a run: that of a plugin's device
  other_device,  ///< memory that only runs copy to and from: that of providers without a data transfer of their own
};

/// A memory as ONNX Runtime describes it.
struct MemoryFacts {
  bool is_host = true;     ///< the processor reads and writes it: memory of the host, also pinned for a device
  bool is_pinned = false;  ///< made by the driver of a device, for copies to and from it
  int device_type = 0;
  std::uint32_t vendor = 0;
  int device = 0;

  bool operator==(const MemoryFacts&) const = default;
};

/// `plugin_devices`: the memories of the plugin devices that the session was made with. Pure.
Place place_of(const MemoryFacts& memory, std::span<const MemoryFacts> plugin_devices) noexcept;

/// Whether ONNX Runtime lets nodes write an output right to memory that the caller gives, and compares its shape with
/// that of the memory: where the session makes the output in memory that it would allocate itself for the host. From
/// everywhere else it copies the output there when the run is over, whatever the two shapes are: of a smaller output
/// the rest of the memory keeps what was in it, and a larger one is written past its end. Pure.
bool is_written_in_place(const MemoryFacts& memory) noexcept;

}  // namespace gpux::ort
