#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::daemon {

/// A file of a folder.
struct FolderFile {
  std::string name;
  std::uint64_t inode = 0;
};

/// The files that are still to be read of one that is renamed when it has become long (logrotate), oldest first: the
/// one with `inode`, which was being read, those that were rotated after it, and `name` itself where it is there. Files
/// that were rotated are `name` with a dot and a number behind it, of which the least is the newest, or with another
/// ending, of which the last by its bytes is the newest; packed ones (.gz, .bz2, .xz, .zst) do not count. Where no file
/// has the inode it is `name` alone.
std::vector<FolderFile> files_to_read(const std::vector<FolderFile>& folder, std::string_view name,
                                      std::uint64_t inode);

}  // namespace gpux::daemon
