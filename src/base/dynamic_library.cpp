#include "base/dynamic_library.h"

#include <cstring>
#include <set>

#include <dlfcn.h>
#include <elf.h>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux {
namespace {

struct Needs {
  std::vector<std::string> libraries;
  std::vector<std::filesystem::path> folders;  // from RPATH and RUNPATH
};

template <typename T>
const T* at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return nullptr;
  return reinterpret_cast<const T*>(bytes.data() + offset);
}

// Reads the dynamic section of a 64-bit ELF file (System V ABI, chapter 5); empty for anything else.
Needs read_needs(const std::filesystem::path& library) {
  Needs needs;
  MappedFile file;
  try {
    file = MappedFile(library);
  } catch (const Error&) {
    return needs;
  }
  const auto bytes = file.bytes();
  const auto* header = at<Elf64_Ehdr>(bytes, 0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return needs;
  }
  std::vector<Elf64_Phdr> segments;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    if (const auto* segment = at<Elf64_Phdr>(bytes, header->e_phoff + i * header->e_phentsize)) {
      segments.push_back(*segment);
    }
  }
  const auto file_offset = [&](std::uint64_t address) -> std::uint64_t {
    for (const Elf64_Phdr& segment : segments) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
        return segment.p_offset + (address - segment.p_vaddr);
      }
    }
    return bytes.size();
  };
  std::vector<std::uint64_t> needed, paths;
  std::uint64_t strings = bytes.size();
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t offset = segment.p_offset; offset < segment.p_offset + segment.p_filesz;
         offset += sizeof(Elf64_Dyn)) {
      const auto* entry = at<Elf64_Dyn>(bytes, offset);
      if (entry == nullptr || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) needed.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH) paths.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB) strings = file_offset(entry->d_un.d_ptr);
    }
  }
  const auto string_at = [&](std::uint64_t offset) -> std::string {
    if (strings >= bytes.size() || offset >= bytes.size() - strings) return {};
    const char* begin = reinterpret_cast<const char*>(bytes.data() + strings + offset);
    return {begin, ::strnlen(begin, bytes.size() - strings - offset)};
  };
  for (const std::uint64_t offset : needed) needs.libraries.push_back(string_at(offset));
  for (const std::uint64_t offset : paths) {
    std::string list = string_at(offset);
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(':', begin), list.size());
      std::string folder = list.substr(begin, end - begin);
      for (const char* origin : {"$ORIGIN", "${ORIGIN}"}) {
        if (const auto position = folder.find(origin); position != std::string::npos) {
          folder.replace(position, std::strlen(origin), library.parent_path().string());
        }
      }
      if (!folder.empty()) needs.folders.emplace_back(folder);
      begin = end + 1;
    }
  }
  return needs;
}

class Search {
 public:
  explicit Search(const std::vector<std::filesystem::path>& folders) : folders_(folders) {}

  void collect(const std::filesystem::path& library) {
    const Needs needs = read_needs(library);
    for (const std::string& name : needs.libraries) {
      if (name.empty() || !seen_.insert(name).second) continue;
      if (const auto beside = find(name, needs.folders); !beside.empty()) {
        collect(beside);
      } else {
        open(name);
      }
    }
  }

  void open(const std::string& name) {
    seen_.insert(name);
    if (::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
    const std::filesystem::path file = find(name, folders_);
    if (!file.empty()) {
      // Its own needs first: the loader takes what is already open by the name that it was built with.
      collect(file);
      if (::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
    }
    missing_.push_back(name);
  }

  [[nodiscard]] bool knows(const std::string& name) const { return seen_.contains(name); }

  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  static std::filesystem::path find(const std::string& name, const std::vector<std::filesystem::path>& folders) {
    for (const std::filesystem::path& folder : folders) {
      std::error_code error;
      if (std::filesystem::exists(folder / name, error)) return folder / name;
    }
    return {};
  }

  const std::vector<std::filesystem::path>& folders_;
  std::set<std::string> seen_;
  std::vector<std::string> missing_;
};

}  // namespace

std::optional<DynamicLibrary> DynamicLibrary::open(const std::filesystem::path& path, std::string& failure) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* words = ::dlerror();
    failure = words == nullptr ? "cannot be opened" : words;
    return std::nullopt;
  }
  return DynamicLibrary(handle);
}

void* DynamicLibrary::symbol(const char* name) const noexcept {
  return ::dlsym(handle_, name);
}

std::vector<std::string> missing_libraries(const std::filesystem::path& library, const LibraryNeeds& needs) {
  Search search(needs.folders);
  search.collect(library);
  for (const std::string& name : needs.also) {
    if (!search.knows(name)) search.open(name);
  }
  return search.missing();
}

}  // namespace gpux
