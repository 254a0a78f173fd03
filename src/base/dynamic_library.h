#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/machine.h"

namespace gpux {

/// A shared library, opened with its symbols kept to itself and never closed: vendor libraries leave threads and
/// exit handlers behind that do not survive it.
class DynamicLibrary {
 public:
  /// The loader's own words in `failure` where it cannot be opened.
  static std::optional<DynamicLibrary> open(const std::filesystem::path& path, std::string& failure);

  /// The symbol's address, or null.
  [[nodiscard]] void* symbol(const char* name) const noexcept;

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}

  void* handle_;
};

/// Libraries that a shared library needs, and the folders to find them in.
struct LibraryNeeds {
  std::vector<std::string> also;                 ///< names that it opens later by itself
  std::vector<std::string> optional;             ///< such that it works without, too
  std::vector<std::filesystem::path> preferred;  ///< where to look first, before the loader
  std::vector<std::filesystem::path> folders;    ///< where to look for what the loader does not find
};

/// Names of the libraries that `library` needs and that are nowhere: those it lists, theirs in turn where they lie
/// beside it or in one of the folders, and `needs.also`. What is found is opened and stays open, so that `library`
/// finds it too, in the folders as well, where the loader would not look. What the process has open by its name stays
/// the one that is used. In the folders a file with more of a version ("libx.so.1.2") stands for the name
/// ("libx.so.1").
std::vector<std::string> missing_libraries(const std::filesystem::path& library, const LibraryNeeds& needs,
                                           const Machine& machine);

}  // namespace gpux
