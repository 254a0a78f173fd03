#include "store/download_folder.h"

#include <vector>

#include "base/durability.h"
#include "base/storage_error.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

constexpr const char* folder_name = "downloads";
constexpr const char* lock_name = "downloads.lock";

fs::path made(const fs::path& folder) {
  require_stored(make_folders(folder), "make the folder", folder);
  return folder;
}

}  // namespace

DownloadFolder::DownloadFolder(const fs::path& root)
    : lock_(made(root) / lock_name, FileLock::Mode::shared), path_(made(root / folder_name)) {}

void DownloadFolder::remove(std::span<const std::string> names) const noexcept {
  for (const std::string& name : names) {
    std::error_code error;
    fs::remove(path_ / name, error);
  }
}

PruneResult prune_downloads(const fs::path& root) {
  PruneResult result;
  std::error_code error;
  const fs::path folder = root / folder_name;
  if (!fs::exists(folder, error)) return result;
  const auto lock = FileLock::try_exclusive(root / lock_name);
  if (!lock) return result;
  std::vector<fs::path> entries;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
    entries.push_back(i->path());
  require_stored(error, "read", folder);
  for (const fs::path& entry : entries) {
    const bool is_file = fs::is_regular_file(fs::symlink_status(entry, error));
    const std::uint64_t bytes = is_file ? fs::file_size(entry, error) : 0;
    fs::remove_all(entry, error);
    require_stored(error, "remove", entry);
    result.files += is_file ? 1 : 0;
    result.bytes += bytes;
  }
  return result;
}

}  // namespace gpux
