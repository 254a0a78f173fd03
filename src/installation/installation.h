#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "installation/client.h"
#include "installation/packages.h"
#include "ort/installed_providers.h"

namespace gpux::installation {

/// Called before each step of an installation with one line that describes it; a step can take long.
using StepListener = std::function<void(const std::string& what)>;

struct InstallOptions {
  Source source;
  bool is_dry_run = false;  ///< say what would be installed, and install nothing
};

struct InstallResult {
  ort::InstalledProvider provider;  ///< for a dry run: the packages, in the folder where they would be
  bool was_there = false;           ///< the same version, undamaged
  std::uint64_t bytes = 0;          ///< bytes of all its files; 0 if it was there, or for a dry run
};

/// Puts the packages of the set into $GPUX_HOME/providers/NAME/VERSION: all of them, or none. Every wheel is compared
/// with the digest that the index gave. A damaged installation of the same version is replaced.
/// Errors not_found (no pip, version or wheel), network, storage, permission.
InstallResult install(const Machine& machine, const PackageSet& set, const std::string& version,
                      const InstallOptions& options, const StepListener& listener);

/// Removes one version, or all where `version` is empty, and returns them. Errors not_found, which says what is
/// installed; permission where a process uses it.
std::vector<ort::InstalledProvider> remove(const Machine& machine, const std::string& name, const std::string& version);

}  // namespace gpux::installation
