#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gpux::ort {

/// A device that a provider offers, as ONNX Runtime lists it.
struct ProviderDevice {
  std::string provider;  ///< ONNX Runtime's name of the provider
  std::string provider_vendor;
  std::string kind;             ///< "cpu", "gpu" or "npu"
  std::string vendor;           ///< vendor of the hardware
  std::uint32_t vendor_id = 0;  ///< PCI
  std::uint32_t device_id = 0;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::size_t index = 0;  ///< in the runtime's list: what ProviderAppend::devices holds
};

/// Loads a plugin provider's library into the open core. A library that is registered already is left alone.
/// Returns ONNX Runtime's names of the providers whose devices came with it. Thread-safe.
/// Error provider_unavailable with the loader's or the library's own words.
std::vector<std::string> register_provider_library(const std::string& name, const std::filesystem::path& library);

/// Every device of every provider, built in and registered.
std::vector<ProviderDevice> provider_devices();

}  // namespace gpux::ort
