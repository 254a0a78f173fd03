#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"

namespace gpux::ort {

/// A Python package of an installed provider.
struct InstalledPackage {
  std::string name;     ///< "onnxruntime-ep-webgpu"
  std::string version;  ///< "0.4.0"
  std::string wheel;    ///< file name
  std::string sha256;   ///< SHA-256 of the wheel, 64 hexadecimal digits
};

/// A library file of an installed provider, as it was when it was installed.
struct InstalledFile {
  std::string path;  ///< relative to the packages, with '/'
  std::uint64_t bytes = 0;
  std::string sha256;         ///< 64 hexadecimal digits
  std::int64_t modified = 0;  ///< time of the last change, in nanoseconds since 1970
};

/// A provider that `gpux providers install` put into $GPUX_HOME/providers/NAME/VERSION.
struct InstalledProvider {
  std::string name;     ///< "cuda"
  std::string version;  ///< version of its first package
  std::filesystem::path folder;
  std::string client;     ///< "pip 23.2.1"
  std::string installed;  ///< "2026-11-25T22:31:00Z"
  std::vector<InstalledPackage> packages;
  std::vector<InstalledFile> libraries;
  std::string damage;  ///< why it is not used: a library that is missing or has changed; empty: it is as installed

  /// Folder of its Python packages.
  [[nodiscard]] std::filesystem::path packages_folder() const { return folder / "site-packages"; }
};

/// How a library is compared with what was installed.
enum class Comparison : std::uint8_t {
  times,    ///< by size and time of change; by its content only where these differ
  content,  ///< by its content
};

/// Folder of installed providers: $GPUX_HOME/providers.
std::filesystem::path installed_providers_folder(const Machine& machine);

/// All of them: by name, the newest version of each first. Damaged ones are among them.
std::vector<InstalledProvider> find_installed_providers(const Machine& machine,
                                                        Comparison comparison = Comparison::times);

/// Writes what find_installed_providers() reads into the folder. Error storage.
void record_installation(const InstalledProvider& provider);

/// The libraries of the packages in the folder, with their digests. Errors storage, and those of reading.
std::vector<InstalledFile> library_files(const std::filesystem::path& packages);

/// Whether the first version is older: "1.9.0" before "1.24.0". Numbers only; what is missing is 0. Pure.
bool is_older_version(const std::string& version, std::string_view floor);

/// The file whose lock a process holds, shared, while it uses the installation.
std::filesystem::path use_lock(const std::filesystem::path& installation);

/// Where the library belongs to an installed provider: keeps that from being removed until this process ends.
void hold_installation_of(const std::filesystem::path& library);

}  // namespace gpux::ort
