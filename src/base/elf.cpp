#include "base/elf.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include <elf.h>
#include <fmt/format.h>

namespace gpux {
namespace {

template <typename T>
std::optional<T> at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The dynamic section of a file, as far as it is undamaged.
class DynamicSection {
  static constexpr std::uint64_t nowhere = std::uint64_t{1} << 63;

 public:
  explicit DynamicSection(std::span<const std::byte> file) : file_(file) {
    const auto header = at<Elf64_Ehdr>(file, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) {
      return;
    }
    for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
      if (const auto segment = at<Elf64_Phdr>(file, header->e_phoff + i * header->e_phentsize)) {
        segments_.push_back(*segment);
      }
    }
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC) continue;
      const std::uint64_t count = segment.p_filesz / sizeof(Elf64_Dyn);
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto entry = at<Elf64_Dyn>(file, segment.p_offset + i * sizeof(Elf64_Dyn));
        if (!entry || entry->d_tag == DT_NULL) break;
        entries_.push_back(*entry);
      }
      // Only one is allowed; of a damaged file's many the first counts.
      break;
    }
    if (const auto table = value(DT_STRTAB)) strings_ = file_offset(*table);
    if (const auto table = value(DT_SYMTAB)) symbols_ = file_offset(*table);
  }

  [[nodiscard]] const std::vector<Elf64_Dyn>& entries() const { return entries_; }

  /// The last of this tag.
  [[nodiscard]] std::optional<std::uint64_t> value(std::int64_t tag) const {
    std::optional<std::uint64_t> found;
    for (const Elf64_Dyn& entry : entries_) {
      if (entry.d_tag == tag) found = entry.d_un.d_val;
    }
    return found;
  }

  [[nodiscard]] std::uint64_t file_offset(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
        return segment.p_offset + (address - segment.p_vaddr);
      }
    }
    return file_.size();
  }

  [[nodiscard]] std::string string_at(std::uint64_t offset) const {
    if (strings_ >= file_.size() || offset >= file_.size() - strings_) return {};
    const char* begin = reinterpret_cast<const char*>(file_.data() + strings_ + offset);
    return {begin, ::strnlen(begin, file_.size() - strings_ - offset)};
  }

  [[nodiscard]] bool defines(std::uint64_t index, std::string_view symbol) const {
    const auto entry = at<Elf64_Sym>(file_, symbols_ + index * sizeof(Elf64_Sym));
    if (!entry || entry->st_shndx == SHN_UNDEF || strings_ >= file_.size()) return false;
    const auto rest = file_.subspan(strings_);
    if (entry->st_name >= rest.size() || rest.size() - entry->st_name <= symbol.size()) return false;
    const auto name = rest.subspan(entry->st_name, symbol.size() + 1);
    return name.back() == std::byte{0} && std::memcmp(name.data(), symbol.data(), symbol.size()) == 0;
  }

 private:
  std::span<const std::byte> file_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> entries_;
  std::uint64_t strings_ = nowhere;
  std::uint64_t symbols_ = nowhere;
};

// Chains of a sound table are short; a damaged one may run in circles.
constexpr std::uint32_t longest_chain = 1U << 16;

bool is_in_gnu_hash(std::span<const std::byte> file, const DynamicSection& section, std::uint64_t table,
                    std::string_view symbol) {
  std::uint32_t hash = 5381;
  for (const char letter : symbol) hash = hash * 33 + static_cast<unsigned char>(letter);
  const auto bucket_count = at<std::uint32_t>(file, table);
  const auto first_symbol = at<std::uint32_t>(file, table + 4);
  const auto bloom_words = at<std::uint32_t>(file, table + 8);
  if (!bucket_count || !first_symbol || !bloom_words || *bucket_count == 0) return false;
  const std::uint64_t buckets = table + 16 + std::uint64_t{8} * *bloom_words;
  const std::uint64_t chains = buckets + std::uint64_t{4} * *bucket_count;
  const auto first = at<std::uint32_t>(file, buckets + std::uint64_t{4} * (hash % *bucket_count));
  if (!first || *first < *first_symbol) return false;
  for (std::uint32_t step = 0; step < longest_chain; ++step) {
    const std::uint64_t index = std::uint64_t{*first} + step;
    const auto kept = at<std::uint32_t>(file, chains + 4 * (index - *first_symbol));
    if (!kept) return false;
    if ((*kept | 1U) == (hash | 1U) && section.defines(index, symbol)) return true;
    if ((*kept & 1U) != 0) return false;
  }
  return false;
}

bool is_in_hash(std::span<const std::byte> file, const DynamicSection& section, std::uint64_t table,
                std::string_view symbol) {
  std::uint32_t hash = 0;
  for (const char letter : symbol) {
    hash = (hash << 4) + static_cast<unsigned char>(letter);
    const std::uint32_t high = hash & 0xf0000000U;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  const auto bucket_count = at<std::uint32_t>(file, table);
  if (!bucket_count || *bucket_count == 0) return false;
  const std::uint64_t chains = table + 8 + std::uint64_t{4} * *bucket_count;
  auto index = at<std::uint32_t>(file, table + 8 + std::uint64_t{4} * (hash % *bucket_count));
  for (std::uint32_t step = 0; step < longest_chain && index && *index != STN_UNDEF; ++step) {
    if (section.defines(*index, symbol)) return true;
    index = at<std::uint32_t>(file, chains + std::uint64_t{4} * *index);
  }
  return false;
}

}  // namespace

ElfNeeds read_elf_needs(std::span<const std::byte> file) {
  ElfNeeds needs;
  const DynamicSection section(file);
  // Longer than any path, and as many as no library has: a damaged file's names must not cost more than it does.
  constexpr std::size_t max_names = 1000, longest_name = 4096;
  for (const Elf64_Dyn& entry : section.entries()) {
    if (entry.d_tag != DT_NEEDED || needs.libraries.size() >= max_names) continue;
    if (std::string name = section.string_at(entry.d_un.d_val); name.size() <= longest_name) {
      needs.libraries.push_back(std::move(name));
    }
  }
  for (const Elf64_Dyn& entry : section.entries()) {
    if (entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH) continue;
    const std::string list = section.string_at(entry.d_un.d_val);
    for (std::size_t begin = 0; begin <= list.size() && needs.folders.size() < max_names;) {
      const std::size_t end = std::min(list.find(':', begin), list.size());
      if (end != begin) needs.folders.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return needs;
}

std::optional<bool> exports_elf_symbol(std::span<const std::byte> file, std::string_view symbol) {
  const DynamicSection section(file);
  if (const auto table = section.value(DT_GNU_HASH)) {
    return is_in_gnu_hash(file, section, section.file_offset(*table), symbol);
  }
  if (const auto table = section.value(DT_HASH)) {
    return is_in_hash(file, section, section.file_offset(*table), symbol);
  }
  return std::nullopt;
}

std::string elf_build_id(std::span<const std::byte> file) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
    return {};
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = at<Elf64_Phdr>(file, header->e_phoff + i * header->e_phentsize);
    if (!segment || segment->p_type != PT_NOTE) continue;
    constexpr std::uint64_t alignment = 4, longest_id = 64;
    for (std::uint64_t place = 0; place < segment->p_filesz;) {
      const auto note = at<Elf64_Nhdr>(file, segment->p_offset + place);
      if (!note) break;
      const auto padded = [](std::uint64_t size) { return (size + alignment - 1) / alignment * alignment; };
      const std::uint64_t name = segment->p_offset + place + sizeof(Elf64_Nhdr),
                          content = name + padded(note->n_namesz);
      place += sizeof(Elf64_Nhdr) + padded(note->n_namesz) + padded(note->n_descsz);
      const auto owner = at<std::array<char, 4>>(file, name);
      const bool is_build_id = note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof(ELF_NOTE_GNU) && owner &&
                               std::memcmp(owner->data(), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0;
      if (!is_build_id || note->n_descsz > longest_id) continue;
      std::string digits;
      for (std::uint64_t byte = 0; byte < note->n_descsz; ++byte) {
        digits += fmt::format("{:02x}", at<std::uint8_t>(file, content + byte).value_or(0));
      }
      return digits;
    }
  }
  return {};
}

}  // namespace gpux
