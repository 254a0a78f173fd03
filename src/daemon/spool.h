#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace gpux::daemon {

/// Lines that were accepted and wait to be worked off, in files FOLDER/NUMBER.jsonl, of which the last is appended to.
/// A number is never used again. From any thread.
class Spool {
 public:
  /// Continues the existing files, without an unfinished line at the end; if there are none, starts with the file
  /// `number`. Errors storage, permission.
  Spool(std::filesystem::path folder, std::uint64_t number);
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Position of a line in the spool: file and offset.
  struct Place {
    std::uint64_t number, offset;
  };

  /// The lines, which hold no line feed, are safe on disk when it returns. Error storage: none is there.
  std::vector<Place> append(std::span<const std::string_view> lines);

  [[nodiscard]] std::filesystem::path file(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t first() const;
  [[nodiscard]] std::uint64_t last() const;
  /// Bytes of the file that are safe on disk.
  [[nodiscard]] std::uint64_t size(std::uint64_t number) const;
  /// Bytes from that place on.
  [[nodiscard]] std::uint64_t bytes_from(std::uint64_t number, std::uint64_t offset) const;
  /// Starts a new file: later append() calls write to it. Error storage.
  void begin_another();
  /// Removes a file of the spool. It must not be the last one.
  void remove(std::uint64_t number);

 private:
  void open(std::uint64_t number);

  const std::filesystem::path folder_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> sizes_;
  UniqueFd descriptor_;
};

}  // namespace gpux::daemon
