#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gpux {

/// What the dynamic section of a shared library asks the loader for.
struct ElfNeeds {
  std::vector<std::string> libraries;  ///< names (DT_NEEDED)
  std::vector<std::string> folders;    ///< RPATH and RUNPATH, "$ORIGIN" unexpanded
};

/// Reads a 64-bit ELF file (System V ABI, chapter 5); empty for anything else, and without what is damaged.
ElfNeeds read_elf_needs(std::span<const std::byte> file);

}  // namespace gpux
