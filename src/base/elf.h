#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux {

/// Libraries and search folders named in the dynamic section of a shared library.
struct ElfNeeds {
  std::vector<std::string> libraries;  ///< names (DT_NEEDED)
  std::vector<std::string> folders;    ///< RPATH and RUNPATH, "$ORIGIN" unexpanded
};

/// Reads a 64-bit ELF file (System V ABI, chapter 5); empty for anything else, and without what is damaged.
ElfNeeds read_elf_needs(std::span<const std::byte> file);

/// Whether the shared library defines the symbol for others, by its hash tables (DT_GNU_HASH or DT_HASH). Empty for
/// anything else than a 64-bit ELF file with one of these tables.
std::optional<bool> exports_elf_symbol(std::span<const std::byte> file, std::string_view symbol);

/// The build ID (a note that linkers write, NT_GNU_BUILD_ID) in hexadecimal digits. Empty where it has none, or is no
/// 64-bit ELF file.
std::string elf_build_id(std::span<const std::byte> file);

}  // namespace gpux
