#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/machine.h"

namespace gpux::ort {

/// An ONNX Runtime library found on the machine, not opened.
struct CoreFile {
  std::filesystem::path library;     ///< where it can be opened: below the machine's root
  std::string version;               ///< "1.31.1" from the file's name; empty where that does not say
  std::string origin;                ///< "GPUX_ONNXRUNTIME", "beside gpux", "GPUX_HOME", "gpux providers install",
                                     ///< "Python package", "system"
  std::vector<std::string> bridges;  ///< providers next to it that need exactly this core: "cuda", "openvino", …
};

/// All of them, in the order in which they are considered: $GPUX_ONNXRUNTIME (a library or its folder; where it is set
/// nothing else is searched), in the packages that $GPUX_PYTHON_PACKAGES names, beside gpux, in the Python environment
/// that gpux is installed in, in $GPUX_HOME, in an installation of the provider cpu, in Python's packages, in
/// installations of other providers, on the system.
std::vector<CoreFile> find_cores(const Machine& machine);

/// Folders in which installed Python packages lie: those of $GPUX_PYTHON_PACKAGES and of the environment that gpux is
/// installed in first, then those of an active virtual environment. Without those of installed providers.
std::vector<std::filesystem::path> python_package_folders(const Machine& machine);

/// Folders of packages of installed providers that are as they were installed: the newest version of each first.
std::vector<std::filesystem::path> installed_package_folders(const Machine& machine);

/// The origin of what was found in such a folder.
inline constexpr const char* installed_origin = "gpux providers install";

/// Whether the folder's name is one that Python installs packages into: site-packages or dist-packages.
bool holds_python_packages(const std::filesystem::path& folder);

/// Folders that hold what is installed with gpux: lib/gpux beside the program or libgpux, or in the Python package
/// gpux.
std::vector<std::filesystem::path> own_library_folders(const Machine& machine);

}  // namespace gpux::ort
