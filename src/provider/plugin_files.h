#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "gpux/provider_manager.h"
#include "provider/table.h"

namespace gpux::provider {

/// A plugin library found on the machine, or named by the user.
struct PluginFile {
  std::string name;  ///< the name it is registered under
  std::filesystem::path library;
  std::string origin;        ///< "given", "GPUX_HOME", "beside gpux", "gpux providers install", "Python package"
  std::string package = {};  ///< Python's name of the package, "onnxruntime_ep_webgpu"; empty: not in one
};

/// PluginFile::origin of a library that the user names.
inline constexpr const char* given_origin = "given";

/// What the names of provider libraries begin with.
inline constexpr std::string_view provider_stem = "libonnxruntime_providers_";

/// The user's own first, then $GPUX_HOME/providers, what is installed with gpux, installed providers, and Python's
/// packages (onnxruntime_*).
/// A library is listed once. One that no row of the table stands for is named by its package: "ggml" in
/// onnxruntime_ggml. Error not_found where one of `given` is not there.
std::vector<PluginFile> find_plugins(std::span<const ProviderLibrary> given, const Machine& machine);

/// What a request may name beside the table: each plugin that stands for no row of it, or was given another name.
std::vector<std::string> own_names(std::span<const PluginFile> plugins);

/// Where Python packages put the vendors' own libraries (nvidia/*/lib, tensorrt_libs), where no loader looks.
std::vector<std::filesystem::path> vendor_library_folders(const Machine& machine);

/// The vendor's libraries in the Python environment that holds the library; empty where none does. Another
/// environment's may be of another CUDA.
std::vector<std::filesystem::path> vendor_library_folders_around(const std::filesystem::path& library);

/// Whether the library is of the row's provider, by its package or its name.
bool brings(const PluginFile& plugin, const ProviderRow& row);

/// The one that stands for the row: the user's own first. Null where there is none.
const PluginFile* plugin_of(const ProviderRow& row, std::span<const PluginFile> plugins);

}  // namespace gpux::provider
