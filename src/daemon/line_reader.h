#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpux::daemon {

/// A line of a file that grows, without what ends it.
struct FoundLine {
  std::string_view text;    ///< until the next call; of one that is too long the beginning
  std::uint64_t begin = 0;  ///< its first byte in the file
  std::uint64_t end = 0;    ///< behind its line feed
  bool too_long = false;
};

/// Reads lines of an open file, from a place on, as they come. Blank lines are passed over.
class LineReader {
 public:
  /// The descriptor stays the caller's. A line may have `limit` bytes.
  LineReader(int descriptor, std::uint64_t offset, std::uint64_t limit);

  /// The next line that has ended before the byte `until`; false where there is none yet. Error storage.
  bool next(FoundLine& line, std::uint64_t until = UINT64_MAX);
  /// The bytes after the last line feed, as a line; false if there are none. Call it if next() found nothing and
  /// nothing more will come.
  bool rest(FoundLine& line);

  /// The first byte of the line that next() looks for.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

 private:
  bool read_more(std::uint64_t until);
  bool take(std::size_t length, std::size_t with_end, FoundLine& line);

  int descriptor_;
  std::uint64_t offset_;  // of the line's first byte
  std::uint64_t limit_;
  std::string buffer_;  // from start_ on: what was read of the line and behind it
  std::size_t start_ = 0;
  std::size_t scanned_ = 0;    // bytes behind start_ without a line feed
  std::uint64_t dropped_ = 0;  // bytes of a line that is too long
};

}  // namespace gpux::daemon
