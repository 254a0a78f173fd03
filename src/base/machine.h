#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/home.h"

namespace gpux {

/// Whether the system's loader opens the library, by its name or file. It stays open.
bool loader_opens(const std::filesystem::path& library);

/// A machine: its files, environment and libraries. All that decides which hardware can be used, and how much of it, is
/// read from one, so that a test can make the machine it is about. As constructed, the one that this process runs on.
struct Machine {
  std::filesystem::path root = "/";                                  ///< the folder with its sys, proc, dev, usr, …
  std::optional<std::map<std::string, std::string>> variables = {};  ///< empty: the environment of this process
  std::function<bool(const std::filesystem::path&)> opens_library = loader_opens;
  /// Next to these files is what is installed with gpux: libgpux and the program.
  std::vector<std::filesystem::path> own_files = {own_library_path(), executable_path()};

  static const Machine& this_one();

  /// Where a file of the machine can be read: an absolute path below the root. A relative path is returned unchanged.
  [[nodiscard]] std::filesystem::path at(const std::filesystem::path& path) const;

  /// The environment variable's value; empty where it is not set.
  [[nodiscard]] std::string variable(const std::string& name) const;

  /// Where gpux stores what belongs to the user: $GPUX_HOME, else ~/.gpux. It may not exist yet. Error storage.
  [[nodiscard]] std::filesystem::path home_folder() const;
};

/// A display or compute device on the PCI bus, as the kernel lists it.
struct PciDevice {
  std::string address;          ///< "0000:01:00.0"
  std::uint16_t vendor_id = 0;  ///< 0x10de NVIDIA, 0x1002 AMD, 0x8086 Intel
  std::uint16_t device_id = 0;
  std::uint32_t class_code = 0;  ///< 0x03xxxx display, 0x12xxxx processing accelerator
};

/// Devices of the display and accelerator classes. Empty where the system has no PCI bus to read.
std::vector<PciDevice> pci_accelerators(const Machine& machine);

/// Files of `folder` whose names are `prefix` and a number, by name: "/dev/nvidia0" of "/dev" and "nvidia".
std::vector<std::filesystem::path> numbered_files(const Machine& machine, const std::filesystem::path& folder,
                                                  std::string_view prefix);

/// Processors this process may use: affinity mask, which cpusets limit, and cgroup quota (v1 and v2), at least 1.
unsigned usable_processors(const Machine& machine);

/// "AMD EPYC 9B14"; empty where unknown.
std::string processor_name(const Machine& machine);

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
bool adds_byte_products_exactly(const Machine& machine);

/// Whether this processor, and the system, run AVX2 instructions.
bool has_avx2(const Machine& machine);

/// Resident memory of this process now and at its peak, in bytes.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

/// Memory this process may use: the cgroup's limit or the machine's memory.
std::uint64_t usable_memory_bytes(const Machine& machine);

}  // namespace gpux
