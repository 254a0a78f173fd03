#include "ort/provider_file.h"

#include "base/elf.h"
#include "base/files.h"
#include "gpux/error.h"

namespace gpux::ort {

ProviderFile read_provider_file(const std::filesystem::path& library) {
  try {
    const MappedFile file(library);
    const auto bridge = exports_elf_symbol(file.bytes(), "GetProvider");
    const auto plugin = exports_elf_symbol(file.bytes(), "CreateEpFactories");
    if (!bridge || !plugin) return {};
    return {.is_known = true, .is_bridge = *bridge, .is_plugin = *plugin};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace gpux::ort
