// What a shared library needs and exports, read from the file.
#include "base/elf.h"

#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const ElfNeeds needs = read_elf_needs(std::as_bytes(std::span(input)));
  for (const std::string& name : needs.libraries) require(name.size() <= 4096, "a name longer than any path");
  for (const std::string& folder : needs.folders) require(!folder.empty(), "a folder without a name");
  (void)exports_elf_symbol(std::as_bytes(std::span(input)), "CreateEpFactories");
}
