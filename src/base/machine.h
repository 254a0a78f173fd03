#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpux {

/// A display or compute device on the PCI bus, as the kernel lists it.
struct PciDevice {
  std::string address;          ///< "0000:01:00.0"
  std::uint16_t vendor_id = 0;  ///< 0x10de NVIDIA, 0x1002 AMD, 0x8086 Intel
  std::uint16_t device_id = 0;
  std::uint32_t class_code = 0;  ///< 0x03xxxx display, 0x12xxxx processing accelerator
};

/// Devices of the display and accelerator classes. Empty where the system has no PCI bus to read.
std::vector<PciDevice> pci_accelerators();

/// Processors this process may use: affinity mask and cgroup quota (v1 and v2), at least 1.
unsigned usable_processors();

/// "AMD EPYC 9B14"; empty where unknown.
std::string processor_name();

/// Whether this is built for processors of the x86 family.
constexpr bool is_x86() noexcept {
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
  return true;
#else
  return false;
#endif
}

/// Whether this processor adds products of unsigned and signed bytes in 32 bits. x86 does so from VNNI on; before, two
/// of them are added in 16 bits, where weights of more than 7 bits can overflow.
bool adds_byte_products_exactly();

/// Resident memory of this process now and at its peak, in bytes.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

/// Memory this process may use: the cgroup's limit or the machine's memory.
std::uint64_t usable_memory_bytes();

}  // namespace gpux
