#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/machine.h"
#include "gpux/verdict.h"
#include "provider/table.h"

namespace gpux::provider {

inline constexpr std::uint16_t nvidia_vendor = 0x10de;
inline constexpr std::uint16_t amd_vendor = 0x1002;

/// A device file that is there while a driver is loaded, and, in a container, where the container was given a GPU.
struct DriverFile {
  std::uint16_t vendor_id;
  const char* path;
  bool is_vendors_alone;  ///< whether it shows that there is hardware of this vendor
};

/// What of a machine's hardware decides whether a provider can work.
struct Hardware {
  std::vector<PciDevice> accelerators;
  std::vector<const DriverFile*> drivers;
  bool has_graphics_file = false;   ///< /dev/dri: without it a GPU on the bus cannot be used by OpenVINO
  std::vector<Device> nvidia_gpus;  ///< as CUDA numbers them; at least one
  std::string nvidia_failure;       ///< NVIDIA's driver is here, but does not work
};

Hardware hardware_of(const Machine& machine);

bool is_vendor_of(const ProviderRow& row, std::uint16_t vendor_id);

/// Whether the row's hardware is here. In containers and in Windows's Linux there may be no PCI bus to read.
bool is_here(const ProviderRow& row, const Hardware& hardware);

/// The device file that the row's driver would make; null where the driver is here, or not known by a file.
const DriverFile* missing_driver(const ProviderRow& row, const Hardware& hardware);

/// By OpenVINO's names for them.
std::vector<Device> intel_gpus(const Hardware& hardware, const Machine& machine);

}  // namespace gpux::provider
