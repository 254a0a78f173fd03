#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace gpux {

/// A whole file in memory, read-only, shared with the page cache. Movable.
class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the file into memory. Errors not_found, permission, storage, invalid_input (a directory or other non-file).
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  [[nodiscard]] std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The file's content. Errors as MappedFile; invalid_input where it is longer than `limit_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit_bytes = std::uint64_t{1} << 32);

/// A new version of a file: written piece by piece to a part next to it, which then replaces it as a whole or not at
/// all. Behind a symbolic link the file it points to is replaced. Parent folders are made. Errors storage (also where
/// the name is that of something else than a regular file, as /dev/null is), permission.
class FileReplacement {
 public:
  /// Whether the part is kept if it is not committed.
  enum class Uncommitted : std::uint8_t {
    removed,  ///< it is removed, but not if the process is killed
    kept,     ///< it stays as FILE.part, and the next FileReplacement of this kind continues it
  };

  /// Begins a new version of `file`. Error storage also where another process writes the part that is kept.
  explicit FileReplacement(std::filesystem::path file, Uncommitted uncommitted = Uncommitted::removed);
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  [[nodiscard]] const std::filesystem::path& part() const noexcept { return part_; }

  /// Bytes of the part.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Truncates the part to its first `size` bytes.
  void cut(std::uint64_t size);
  /// Appends `content` to the part.
  void append(std::span<const std::byte> content);
  void overwrite_beginning(std::span<const std::byte> content);
  /// Replaces the file, also after a loss of power. Nothing can be written afterwards.
  void commit();
  /// commit() under another name in the same file system. The caller syncs the folder (base/durability.h).
  void commit_as(const std::filesystem::path& place);
  /// Removes the part.
  void discard() noexcept;

 private:
  void create_part();
  void open_part();
  void write(std::span<const std::byte> content, std::uint64_t position);
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path file_, part_;
  Uncommitted uncommitted_;
  UniqueFd descriptor_;  // none: committed or discarded
  std::uint64_t size_ = 0;
};

/// Replaces the file as a whole or not at all, whatever happens in between; parent folders are made.
/// Errors storage, permission.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content);
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Throws the Error that errno means for `path`: "cannot open 'x': No such file or directory".
[[noreturn]] void throw_file_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace gpux
