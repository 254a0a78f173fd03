#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gpux::daemon {

/// Position up to which a series of files has been read.
struct ReadPosition {
  std::uint64_t generation = 0;  ///< which of the files that stood there one after another; 0: none was read yet
  std::uint64_t inode = 0;       ///< inode of the file
  std::uint64_t offset = 0;      ///< what stands before it is done
  std::string before;            ///< the bytes right before it, in hexadecimal digits: the file is still the same

  bool operator==(const ReadPosition&) const = default;
};

/// The position in the file; the beginning if there is no file. Error storage if it is damaged.
ReadPosition read_position(const std::filesystem::path& file);

/// Writes atomically. Error storage.
void write_position(const std::filesystem::path& file, const ReadPosition& position);

}  // namespace gpux::daemon
