#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace gpux {

/// A file that is written piece by piece as FILE.part and takes its place as a whole. What is not committed stays, also
/// where the process is killed, so that the next can go on behind it. One process at a time has FILE.part. Parent
/// folders are made. Errors storage, permission.
class PartialFile {
 public:
  /// FILE.part with what is in it, made where there is none. Error storage also where another process has it.
  explicit PartialFile(std::filesystem::path file);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  /// FILE.part
  [[nodiscard]] const std::filesystem::path& part() const noexcept { return part_; }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Only the first `size` bytes stay.
  void cut(std::uint64_t size);
  /// After the last byte.
  void append(std::span<const std::byte> content);
  /// Overwrites the beginning.
  void rewrite_beginning(std::span<const std::byte> content);
  /// Replaces FILE. The object cannot be used afterwards.
  void commit();
  /// It goes.
  void discard() noexcept;

 private:
  void open();
  void write(std::span<const std::byte> content, std::uint64_t position);
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path file_, part_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace gpux
