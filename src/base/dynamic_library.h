#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

/// Names of the libraries that `library` asks the loader for and that the loader cannot find, found without opening
/// `library` itself: those it lists as needed, theirs in turn where they lie beside it, and `also`, which it opens
/// later by name.
std::vector<std::string> missing_libraries(const std::filesystem::path& library,
                                           const std::vector<std::string>& also = {});

}  // namespace gpux
