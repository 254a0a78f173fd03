#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <system_error>

namespace gpux {

// A file survives a loss of power under its name after: write, sync_file, rename_file, sync_folder of its folder.
// Each function returns the number of the error; 0: none.

/// The file's content and size reach the disk.
[[nodiscard]] int sync_file(int descriptor) noexcept;
/// All that was written to the file system of this descriptor reaches the disk: one wait for many files.
[[nodiscard]] int sync_file_system(int descriptor) noexcept;
/// The names in the folder reach the disk. 0 also where the folder may not be read, or its file system cannot do it.
[[nodiscard]] int sync_folder(const std::filesystem::path& folder) noexcept;
[[nodiscard]] int rename_file(const std::filesystem::path& from, const std::filesystem::path& to) noexcept;

/// Creates the missing ones of the folder and its parents; their names survive a loss of power.
[[nodiscard]] std::error_code make_folders(const std::filesystem::path& folder);

enum class DiskOperation : std::uint8_t { write, sync_file, sync_file_system, sync_folder, rename };

struct DiskCall {
  DiskOperation operation;
  std::filesystem::path path;    ///< of the file or folder; of a rename: the old name
  std::filesystem::path target;  ///< of a rename: the new name
};

/// Sees every operation before it is done, on the thread that does it. What it returns, if not 0, is the number of the
/// error that the operation then ends with, undone.
using DiskObserver = std::function<int(const DiskCall&)>;

/// Sets the observer of disk operations, for tests; null: none. The observer must outlive its use.
void observe_disk(const DiskObserver* observer) noexcept;

/// Called by what writes to files.
[[nodiscard]] int report_write(int descriptor) noexcept;

}  // namespace gpux
