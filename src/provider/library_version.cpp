#include "provider/library_version.h"

#include <system_error>

#include <fmt/format.h>

#include "base/elf.h"
#include "base/files.h"
#include "gpux/error.h"

namespace gpux::provider {

namespace fs = std::filesystem;

std::string library_version(const fs::path& library) {
  std::error_code error;
  const auto size = fs::file_size(library, error);
  if (error) return library.string();
  const auto changed = fs::last_write_time(library, error).time_since_epoch().count();
  return fmt::format("{} {} {}", library.string(), size, changed);
}

std::string library_content(const fs::path& library) {
  try {
    const MappedFile file(library);
    const std::string build = elf_build_id(file.bytes());
    if (!build.empty()) return fmt::format("{}, build {}", library.filename().string(), build);
  } catch (const Error&) {
    return library.string();
  }
  return library_version(library);
}

}  // namespace gpux::provider
