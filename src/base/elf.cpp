#include "base/elf.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include <elf.h>

namespace gpux {
namespace {

template <typename T>
std::optional<T> at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

ElfNeeds read_elf_needs(std::span<const std::byte> file) {
  ElfNeeds needs;
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) {
    return needs;
  }
  std::vector<Elf64_Phdr> segments;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    if (const auto segment = at<Elf64_Phdr>(file, header->e_phoff + i * header->e_phentsize)) {
      segments.push_back(*segment);
    }
  }
  const auto file_offset = [&](std::uint64_t address) -> std::uint64_t {
    for (const Elf64_Phdr& segment : segments) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
        return segment.p_offset + (address - segment.p_vaddr);
      }
    }
    return file.size();
  };
  std::vector<std::uint64_t> needed, paths;
  std::uint64_t strings = file.size();
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::uint64_t count = segment.p_filesz / sizeof(Elf64_Dyn);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto entry = at<Elf64_Dyn>(file, segment.p_offset + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) needed.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH) paths.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB) strings = file_offset(entry->d_un.d_ptr);
    }
    // Only one is allowed; of a damaged file's many the first counts.
    break;
  }
  const auto string_at = [&](std::uint64_t offset) -> std::string {
    if (strings >= file.size() || offset >= file.size() - strings) return {};
    const char* begin = reinterpret_cast<const char*>(file.data() + strings + offset);
    return {begin, ::strnlen(begin, file.size() - strings - offset)};
  };
  // Longer than any path, and as many as no library has: a damaged file's names must not cost more than it does.
  constexpr std::size_t max_names = 1000, longest_name = 4096;
  for (const std::uint64_t offset : needed) {
    if (std::string name = string_at(offset); name.size() <= longest_name && needs.libraries.size() < max_names) {
      needs.libraries.push_back(std::move(name));
    }
  }
  for (const std::uint64_t offset : paths) {
    const std::string list = string_at(offset);
    for (std::size_t begin = 0; begin <= list.size() && needs.folders.size() < max_names;) {
      const std::size_t end = std::min(list.find(':', begin), list.size());
      if (end != begin) needs.folders.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return needs;
}

}  // namespace gpux
