#include "provider/plugin_files.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "ort/core_search.h"
#include "ort/provider_file.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

// "nv-tensorrt-rtx" of onnxruntime_ep_nv_tensorrt_rtx, "ggml" of onnxruntime_ggml.
std::string short_name_of(std::string package) {
  for (const std::string_view prefix : {"onnxruntime_ep_", "onnxruntime_"}) {
    if (!package.starts_with(prefix)) continue;
    package.erase(0, prefix.size());
    break;
  }
  std::ranges::replace(package, '_', '-');
  return package;
}

// Whether the package is named for the provider: onnxruntime_ep_cuda13 for CUDAExecutionProvider.
bool is_named_for(const std::string& package, const ProviderRow& row) {
  if (package.empty()) return false;
  std::string name = short_name_of(package);
  std::erase(name, '-');
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.pop_back();
  return std::ranges::any_of(row.plugin_names,
                             [&](std::string_view plugin) { return lower(plugin) == name + "executionprovider"; });
}

void add_vendor_folders(const fs::path& packages, std::vector<fs::path>& folders) {
  std::error_code error;
  for (fs::directory_iterator entry(packages / "nvidia", error), end; !error && entry != end; entry.increment(error)) {
    folders.push_back(entry->path() / "lib");
  }
  folders.push_back(packages / "tensorrt_libs");
}

// By name; `depth`: of the folders below it that are searched, too.
std::vector<fs::path> libraries_in(const fs::path& folder, int depth) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry.depth() >= depth) entry.disable_recursion_pending();
    const std::string extension = entry->path().extension();
    if (extension == ".so" || extension == ".dylib") files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

bool brings(const PluginFile& plugin, const ProviderRow& row) {
  if (is_named_for(plugin.package, row)) return true;
  const std::string stem = plugin.library.stem();
  // A bridge and a plugin may have the same name, or be the same file.
  if (!row.bridge.empty() && stem == std::string(provider_stem).append(row.bridge)) return true;
  return std::find(row.plugins.begin(), row.plugins.end(), stem) != row.plugins.end();
}

const PluginFile* plugin_of(const ProviderRow& row, std::span<const PluginFile> plugins) {
  for (const PluginFile& plugin : plugins) {
    if (plugin.origin == given_origin && plugin.name == row.id) return &plugin;
  }
  for (const PluginFile& plugin : plugins) {
    if (brings(plugin, row)) return &plugin;
  }
  return nullptr;
}

std::vector<fs::path> vendor_library_folders(const Machine& machine) {
  std::vector<fs::path> folders;
  for (const fs::path& packages : ort::python_package_folders(machine)) add_vendor_folders(packages, folders);
  for (const fs::path& packages : ort::installed_package_folders(machine)) add_vendor_folders(packages, folders);
  return folders;
}

std::vector<fs::path> vendor_library_folders_around(const fs::path& library) {
  std::vector<fs::path> folders;
  for (fs::path folder = library.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (!ort::holds_python_packages(folder)) continue;
    add_vendor_folders(folder, folders);
    break;
  }
  return folders;
}

namespace {

/// Lists plugins, each library once.
class PluginList {
 public:
  void add(const std::string& name, const fs::path& library, const char* origin, const std::string& package = {}) {
    std::error_code error;
    const fs::path file = fs::canonical(library, error);
    if (error) return;
    const bool known = std::ranges::any_of(plugins_, [&](const PluginFile& plugin) { return plugin.library == file; });
    if (!known) plugins_.push_back({name, file, origin, package});
  }

  // Beside its provider there may be the provider's own dependencies.
  void add_folder(const fs::path& folder, const char* origin) {
    for (const fs::path& file : libraries_in(folder, 0)) {
      const ort::ProviderFile provider = ort::read_provider_file(file);
      if (!provider.is_known || provider.is_plugin || provider.is_bridge) add(file.stem(), file, origin);
    }
  }

  // A folder of Python packages.
  void add_packages(const fs::path& packages, const char* origin) {
    std::error_code error;
    std::vector<fs::path> folders;
    for (fs::directory_iterator entry(packages, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename();
      // Others belong to a package: "onnxruntime_ggml.libs", "onnxruntime_ggml-0.2.0.dist-info".
      if (name.starts_with("onnxruntime_") && name.find('.') == std::string::npos) folders.push_back(entry->path());
    }
    std::ranges::sort(folders);
    for (const fs::path& folder : folders) add_package(folder, origin);
    // Next to an ONNX Runtime library: what is a bridge there is its own.
    for (fs::directory_iterator entry(packages / "onnxruntime" / "capi", error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path& file = entry->path();
      if (file.extension() != ".so" || !file.filename().string().starts_with(provider_stem)) continue;
      const ort::ProviderFile provider = ort::read_provider_file(file);
      if (provider.is_plugin && !provider.is_bridge) add(file.stem(), file, origin);
    }
  }

  [[nodiscard]] std::vector<PluginFile> take() { return std::move(plugins_); }

 private:
  void add_package(const fs::path& folder, const char* origin) {
    const std::string package = folder.filename();
    std::vector<fs::path> found;
    for (const fs::path& file : libraries_in(folder, 3)) {
      const ort::ProviderFile provider = ort::read_provider_file(file);
      const bool has_its_name = file.filename().string().starts_with(provider_stem);
      if (provider.is_known ? provider.is_plugin : has_its_name) found.push_back(file);
    }
    for (const fs::path& file : found) {
      const std::string name = short_name_of(package);
      add(found.size() == 1 ? name : fmt::format("{}-{}", name, file.stem().string()), file, origin, package);
    }
  }

  std::vector<PluginFile> plugins_;
};

}  // namespace

std::vector<PluginFile> find_plugins(std::span<const ProviderLibrary> given, const Machine& machine) {
  PluginList plugins;
  for (const ProviderLibrary& library : given) {
    std::error_code error;
    if (!fs::is_regular_file(library.path, error)) {
      throw Error(ErrorCode::not_found,
                  format_message("provider library {}: '{}' does not exist", library.name, file_at(library.path)));
    }
    plugins.add(library.name, library.path, given_origin);
  }
  plugins.add_folder(machine.home_folder() / "providers", "GPUX_HOME");
  for (const fs::path& folder : ort::own_library_folders(machine)) {
    plugins.add_folder(folder / "providers", "beside gpux");
  }
  for (const fs::path& packages : ort::installed_package_folders(machine)) {
    plugins.add_packages(packages, ort::installed_origin);
  }
  for (const fs::path& packages : ort::python_package_folders(machine))
    plugins.add_packages(packages, "Python package");
  return plugins.take();
}

std::vector<std::string> own_names(std::span<const PluginFile> plugins) {
  std::vector<std::string> names;
  for (const PluginFile& plugin : plugins) {
    const bool stands_for_row = std::any_of(table().begin(), table().end(), [&](const ProviderRow& row) {
      return plugin.name == row.id || (plugin.origin != given_origin && brings(plugin, row));
    });
    if (!stands_for_row) names.push_back(plugin.name);
  }
  return names;
}

}  // namespace gpux::provider
