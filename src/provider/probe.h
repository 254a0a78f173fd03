#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "gpux/provider_manager.h"
#include "ort/core_search.h"
#include "ort/plugins.h"
#include "provider/request.h"
#include "provider/table.h"

namespace gpux::provider {

/// A plugin library found on the machine, or named by the user.
struct PluginFile {
  std::string name;  ///< the name it is registered under
  std::filesystem::path library;
  std::string origin;        ///< "given", "GPUX_HOME", "beside gpux", "gpux providers install", "Python package"
  std::string package = {};  ///< Python's name of the package, "onnxruntime_ep_webgpu"; empty: not in one
};

/// The user's own first, then $GPUX_HOME/providers, what is installed with gpux, installed providers, and Python's
/// packages (onnxruntime_*).
/// A library is listed once. One that no row of the table stands for is named by its package: "ggml" in
/// onnxruntime_ggml. Error not_found where one of `given` is not there.
std::vector<PluginFile> find_plugins(std::span<const ProviderLibrary> given, const Machine& machine);

/// Whether the version comes before `floor`: "1.24.4" before "1.24.10". Numbers only; what is missing is 0. Pure.
bool is_older(const std::string& version, std::string_view floor);

/// What a request may name beside the table: each plugin that stands for no row of it, or was given another name.
std::vector<std::string> own_names(std::span<const PluginFile> plugins);

/// Where Python packages put the vendors' own libraries (nvidia/*/lib, tensorrt_libs), where no loader looks.
std::vector<std::filesystem::path> vendor_library_folders(const Machine& machine);

/// Those of the Python environment that holds the library; empty where none does. Another environment's may be of
/// another CUDA.
std::vector<std::filesystem::path> vendor_library_folders_around(const std::filesystem::path& library);

/// What can be said before ONNX Runtime is opened: libraries present or missing, hardware present or not, and what to
/// type on that machine. One report for each id, plugins provisionally available. `ids` may hold names of `plugins`.
std::vector<ProviderReport> survey(std::span<const std::string> ids, std::span<const ort::CoreFile> cores,
                                   std::span<const PluginFile> plugins, const Machine& machine);

/// Completes the reports with what the open core says: registers the plugins that the reports name, lists their
/// devices, checks which providers are built in. Reports bound to another core are left as they are.
void confirm(std::vector<ProviderReport>& reports, std::span<const PluginFile> plugins, const Machine& machine);

/// As confirm(), for a request. Where it is one for any device and a row of the table has one, plugins of no row stay
/// as they are: libraries that nobody asked for are not opened.
void confirm_for(const Request& request, System system, std::vector<ProviderReport>& reports,
                 std::span<const PluginFile> plugins, const Machine& machine);

}  // namespace gpux::provider
