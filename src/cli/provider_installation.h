#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace gpux::cli {

/// Flags of `gpux providers ACTION`.
struct InstallationFlags {
  std::vector<std::string> names;  ///< NAME or NAME@VERSION
  std::string from;
  bool is_dry_run = false;
};

void install_providers(const InstallationFlags& flags, const Context& context);
void list_installed_providers(const InstallationFlags& flags, const Context& context);
void check_installed_providers(const InstallationFlags& flags, Context& context);
void remove_providers(const InstallationFlags& flags, const Context& context);

}  // namespace gpux::cli
