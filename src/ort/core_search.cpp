#include "ort/core_search.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/spelling.h"
#include "gpux/error.h"
#include "ort/installed_providers.h"
#include "ort/provider_file.h"

namespace gpux::ort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view core_stem = "libonnxruntime.so";
constexpr std::string_view bridge_stem = "libonnxruntime_providers_";

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string version_in(const fs::path& library) {
  const std::string name = library.filename();
  if (name.size() <= core_stem.size() + 1) return {};
  const std::string version = name.substr(core_stem.size() + 1);
  return std::count(version.begin(), version.end(), '.') >= 1 ? version : std::string();
}

void add_core(const fs::path& library, const std::string& origin, std::vector<CoreFile>& cores) {
  std::error_code error;
  const fs::path file = fs::canonical(library, error);
  if (error) return;
  if (std::any_of(cores.begin(), cores.end(), [&](const CoreFile& core) { return core.library == file; })) return;
  CoreFile core{.library = file, .version = version_in(file), .origin = origin, .bridges = {}};
  for (const fs::path& entry : entries(file.parent_path())) {
    const std::string name = entry.filename();
    if (!name.starts_with(bridge_stem) || !name.ends_with(".so")) continue;
    const std::string bridge = name.substr(bridge_stem.size(), name.size() - bridge_stem.size() - 3);
    if (bridge == "shared") continue;
    if (const ProviderFile provider = read_provider_file(entry); provider.is_known && !provider.is_bridge) continue;
    core.bridges.push_back(bridge);
  }
  cores.push_back(std::move(core));
}

void add_cores_in(const fs::path& folder, const std::string& origin, std::vector<CoreFile>& cores) {
  for (const fs::path& entry : entries(folder)) {
    if (entry.filename().string().starts_with(core_stem)) add_core(entry, origin, cores);
  }
}

void add_folder(const fs::path& folder, std::vector<fs::path>& folders) {
  std::error_code error;
  if (fs::is_directory(folder, error) && std::find(folders.begin(), folders.end(), folder) == folders.end()) {
    folders.push_back(folder);
  }
}

// prefix/lib/python3.12/site-packages and the like.
std::vector<fs::path> package_folders_below(const fs::path& prefix) {
  std::vector<fs::path> folders;
  for (const fs::path& entry : entries(prefix / "lib")) {
    if (!entry.filename().string().starts_with("python3")) continue;
    for (const char* kind : {"site-packages", "dist-packages"}) add_folder(entry / kind, folders);
  }
  return folders;
}

// Where the Python package gpux keeps libgpux.
fs::path library_folder_of(const fs::path& packages) {
  return packages / "gpux" / "lib";
}

// Where the Python package gpux found packages in Python's search path.
std::vector<fs::path> named_package_folders(const Machine& machine) {
  std::vector<fs::path> folders;
  for (const std::string& folder : split(machine.variable("GPUX_PYTHON_PACKAGES"), ':')) {
    if (!folder.empty()) add_folder(machine.at(folder), folders);
  }
  return folders;
}

// Also those into which the Python package that own files belong to was installed.
std::vector<fs::path> own_package_folders(const Machine& machine) {
  std::vector<fs::path> folders = named_package_folders(machine);
  for (const fs::path& own : machine.own_files) {
    for (fs::path folder = own.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
      if (holds_python_packages(folder)) add_folder(folder, folders);
    }
    if (own.parent_path().filename() != "bin") continue;
    for (const fs::path& folder : package_folders_below(own.parent_path().parent_path())) {
      std::error_code error;
      if (fs::is_directory(library_folder_of(folder), error)) add_folder(folder, folders);
    }
  }
  return folders;
}

}  // namespace

std::vector<fs::path> installed_package_folders(const Machine& machine) {
  std::vector<fs::path> folders;
  for (const InstalledProvider& provider : find_installed_providers(machine)) {
    if (provider.damage.empty()) add_folder(provider.packages_folder(), folders);
  }
  return folders;
}

bool holds_python_packages(const fs::path& folder) {
  return folder.filename() == "site-packages" || folder.filename() == "dist-packages";
}

std::vector<fs::path> own_library_folders(const Machine& machine) {
  std::vector<fs::path> folders;
  for (const fs::path& own : machine.own_files) {
    const fs::path folder = own.parent_path();
    for (const fs::path& candidate :
         {folder / "gpux", folder.parent_path() / "gpux", folder.parent_path() / "lib" / "gpux"}) {
      add_folder(candidate, folders);
    }
  }
  for (const fs::path& packages : own_package_folders(machine)) {
    add_folder(library_folder_of(packages) / "gpux", folders);
  }
  return folders;
}

std::vector<fs::path> python_package_folders(const Machine& machine) {
  std::vector<fs::path> prefixes;
  if (const std::string active = machine.variable("VIRTUAL_ENV"); !active.empty()) {
    prefixes.push_back(machine.at(active));
  }
  // Each provider's package in an environment of its own: their files have the same names.
  for (const fs::path& environment : entries(machine.home_folder() / "python")) prefixes.push_back(environment);
  for (const std::string& folder : split(machine.variable("PATH"), ':')) {
    std::error_code error;
    const fs::path programs = machine.at(folder);
    if (!folder.empty() && fs::exists(programs / "python3", error)) prefixes.push_back(programs.parent_path());
  }
  if (const std::string home = machine.variable("HOME"); !home.empty()) {
    prefixes.push_back(machine.at(home) / ".local");
  }
  prefixes.push_back(machine.at("/usr/local"));
  prefixes.push_back(machine.at("/usr"));

  std::vector<fs::path> folders = own_package_folders(machine);
  for (const fs::path& prefix : prefixes) {
    for (const fs::path& folder : package_folders_below(prefix)) add_folder(folder, folders);
  }
  return folders;
}

std::vector<CoreFile> find_cores(const Machine& machine) {
  std::vector<CoreFile> cores;
  if (const std::string given = machine.variable("GPUX_ONNXRUNTIME"); !given.empty()) {
    std::error_code error;
    if (const fs::path file = machine.at(given); fs::is_directory(file, error)) {
      add_cores_in(file, "GPUX_ONNXRUNTIME", cores);
    } else {
      add_core(file, "GPUX_ONNXRUNTIME", cores);
    }
    if (cores.empty()) {
      throw Error(
          ErrorCode::provider_unavailable,
          "GPUX_ONNXRUNTIME is '" + given + "', which is neither an ONNX Runtime library nor a folder with one");
    }
    return cores;
  }
  const auto add_packages = [&](const std::vector<fs::path>& folders, const char* origin = "Python package") {
    for (const fs::path& folder : folders) add_cores_in(folder / "onnxruntime" / "capi", origin, cores);
  };
  // First: a Python process that imports onnxruntime, too, has one copy of it.
  add_packages(named_package_folders(machine));
  for (const fs::path& folder : own_library_folders(machine)) {
    add_cores_in(folder, "beside gpux", cores);
    for (const fs::path& core : entries(folder / "cores")) add_cores_in(core, "beside gpux", cores);
  }
  // The Python package comes without ONNX Runtime, and uses the one that was installed with it.
  add_packages(own_package_folders(machine));
  const fs::path home = machine.home_folder();
  add_cores_in(home / "lib", "GPUX_HOME", cores);
  for (const fs::path& core : entries(home / "cores")) add_cores_in(core, "GPUX_HOME", cores);
  // A provider's own core is no reason to run everything else on it: that of Python goes first.
  std::vector<fs::path> installed = installed_package_folders(machine);
  const auto others = std::stable_partition(installed.begin(), installed.end(), [](const fs::path& folder) {
    return folder.parent_path().parent_path().filename() == "cpu";
  });
  add_packages(std::vector<fs::path>(installed.begin(), others), installed_origin);
  add_packages(python_package_folders(machine));
  add_packages(std::vector<fs::path>(others, installed.end()), installed_origin);
  for (const std::string& folder : split(machine.variable("LD_LIBRARY_PATH"), ':')) {
    if (!folder.empty()) add_cores_in(machine.at(folder), "system", cores);
  }
  static constexpr std::array<const char*, 6> system_folders{
      "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
      "/usr/lib",       "/opt/onnxruntime/lib"};
  for (const char* folder : system_folders) add_cores_in(machine.at(folder), "system", cores);
  return cores;
}

}  // namespace gpux::ort
