#pragma once

#include <filesystem>

namespace gpux::ort {

/// The kind of a provider library, by its exported symbols. A file can be both: ONNX Runtime then treats it as a bridge
/// even where it is registered as a plugin.
struct ProviderFile {
  bool is_known = false;   ///< false: no library that can be read, and nothing is known but its name
  bool is_bridge = false;  ///< exports GetProvider: works with the ONNX Runtime library that it was built with
  bool is_plugin = false;  ///< exports CreateEpFactories: is registered with any ONNX Runtime that is new enough
};

/// Reads the library's file without opening it as a library.
ProviderFile read_provider_file(const std::filesystem::path& library);

}  // namespace gpux::ort
