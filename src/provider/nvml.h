#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"

namespace gpux::provider {

/// One of NVIDIA's GPUs as its management library (NVML) describes it.
struct NvmlDevice {
  std::string name;     ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;     ///< "GPU-…"
  std::string address;  ///< "0000:01:00.0"
  std::uint64_t memory_bytes = 0;
  unsigned compute_capability = 0;          ///< 90 for 9.0; 0: not known
  std::optional<std::uint64_t> free_bytes;  ///< free memory; empty: not known
};

/// What NVML says. It comes with the driver.
struct NvmlReport {
  bool is_open = false;             ///< false: its library is not here, or cannot be used; nothing is known
  std::string failure;              ///< NVML's own words where the driver does not work
  std::string driver;               ///< version
  std::vector<NvmlDevice> devices;  ///< by their addresses on the bus
};

/// The oldest driver that supports the release of CUDA, 12 or 13 (NVIDIA's table of minor version compatibility). Pure.
std::string_view oldest_driver(unsigned cuda) noexcept;

/// Opens libnvidia-ml.so.1 of the machine and asks it. It is closed for use again, and stays loaded.
NvmlReport read_nvml(const Machine& machine);

}  // namespace gpux::provider
