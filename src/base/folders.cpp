#include "base/folders.h"

#include <algorithm>
#include <system_error>

namespace gpux {

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    if (entry->is_directory(unreadable)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::uint64_t bytes_below(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    if (!entry->is_regular_file(unreadable) || entry->is_symlink(unreadable)) continue;
    const std::uint64_t size = entry->file_size(unreadable);
    if (!unreadable) bytes += size;
  }
  return bytes;
}

}  // namespace gpux
