#pragma once

#include <string>
#include <vector>

#include "registry/oci/access.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// The flags of commands that speak to registries: --ca-file, --insecure.
struct RegistryFlags {
  std::string ca_file;
  std::vector<std::string> insecure;

  [[nodiscard]] oci::Access access() const;
};

void add_registry_flags(CLI::App& command, RegistryFlags& flags);

}  // namespace gpux::cli
