#include "base/dynamic_library.h"

#include <set>
#include <string_view>

#include <dlfcn.h>

#include "base/elf.h"
#include "base/files.h"
#include "gpux/error.h"

namespace gpux {
namespace {

struct Needs {
  std::vector<std::string> libraries;
  std::vector<std::filesystem::path> folders;  // from RPATH and RUNPATH
};

Needs read_needs(const std::filesystem::path& library, const Machine& machine) {
  Needs needs;
  MappedFile file;
  try {
    file = MappedFile(library);
  } catch (const Error&) {
    return needs;
  }
  ElfNeeds found = read_elf_needs(file.bytes());
  needs.libraries = std::move(found.libraries);
  for (std::string& folder : found.folders) {
    folder = machine.at(folder).string();
    for (const std::string_view origin : {"$ORIGIN", "${ORIGIN}"}) {
      if (const auto position = folder.find(origin); position != std::string::npos) {
        folder.replace(position, origin.size(), library.parent_path().string());
      }
    }
    needs.folders.emplace_back(folder);
  }
  return needs;
}

class Search {
 public:
  Search(const LibraryNeeds& needs, const Machine& machine) : needs_(needs), machine_(machine) {}

  void collect(const std::filesystem::path& library) {
    const Needs needs = read_needs(library, machine_);
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
    if (!try_open(name)) missing_.push_back(name);
  }

  bool try_open(const std::string& name) {
    seen_.insert(name);
    if (!is_open(name) && open_in(needs_.preferred, name)) return true;
    return machine_.opens_library(name) || open_in(needs_.folders, name);
  }

  [[nodiscard]] bool knows(const std::string& name) const { return seen_.contains(name); }

  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  static bool is_open(const std::string& name) { return ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

  bool open_in(const std::vector<std::filesystem::path>& folders, const std::string& name) {
    const std::filesystem::path file = find(name, folders);
    if (file.empty()) return false;
    // Its own needs first: the loader takes what is already open by the name that it was built with.
    collect(file);
    return machine_.opens_library(file);
  }

  static std::filesystem::path find(const std::string& name, const std::vector<std::filesystem::path>& folders) {
    for (const std::filesystem::path& folder : folders) {
      std::error_code error;
      if (std::filesystem::exists(folder / name, error)) return folder / name;
      // Packages leave out the links that a distribution makes to a file with its whole version.
      if (name.find(".so.") == std::string::npos) continue;
      for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
           entry.increment(error)) {
        if (entry->path().filename().string().starts_with(name + ".")) return entry->path();
      }
    }
    return {};
  }

  const LibraryNeeds& needs_;
  const Machine& machine_;
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

std::vector<std::string> missing_libraries(const std::filesystem::path& library, const LibraryNeeds& needs,
                                           const Machine& machine) {
  Search search(needs, machine);
  search.collect(library);
  for (const std::string& name : needs.also) {
    if (!search.knows(name)) search.open(name);
  }
  for (const std::string& name : needs.optional) {
    if (!search.knows(name)) (void)search.try_open(name);
  }
  return search.missing();
}

}  // namespace gpux
