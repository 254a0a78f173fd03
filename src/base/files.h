#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace gpux {

/// A whole file in memory, read-only, shared with the page cache. Movable.
class MappedFile {
 public:
  MappedFile() = default;
  /// Errors not_found, permission, storage, invalid_input (a directory or other non-file).
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

/// Where a file that is to replace `path` is written: `path`, or the file that a symbolic link of that name points to.
/// Error storage where something else than a regular file has the name, as /dev/null has: it is not replaced.
std::filesystem::path replaceable_file(std::filesystem::path path);

/// A file that is written piece by piece beside its place and takes it as a whole, or not at all. Without commit()
/// nothing stays. Parent folders are made. Errors storage, permission.
class FileReplacement {
 public:
  explicit FileReplacement(std::filesystem::path path);
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  /// Behind what was written before.
  void append(std::span<const std::byte> content);
  /// Nothing can be written afterwards.
  void commit();

 private:
  void write(std::span<const std::byte> content, std::uint64_t position);
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path path_;
  std::string temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Replaces the file as a whole or not at all, whatever happens in between; parent folders are made.
/// Errors storage, permission.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content);
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Throws the Error that errno means for `path`: "cannot open 'x': No such file or directory".
[[noreturn]] void throw_file_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace gpux
