#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace gpux::daemon {

/// How far a file has been worked off, where its events are begun in order and end in any. Not for several threads at
/// once.
class CompletedPrefix {
 public:
  explicit CompletedPrefix(std::uint64_t offset = 0) : offset_(offset) {}

  /// An event whose last byte stands before `end`, which is not less than of the one begun before. Gives its number.
  std::uint64_t begin(std::uint64_t end);
  /// An event that was begun has ended; once each.
  void complete(std::uint64_t number);

  /// All events that end at or before this byte have ended, and it is where one ends.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

  /// Events begun and not ended.
  [[nodiscard]] std::size_t open() const noexcept { return open_; }

 private:
  struct Begun {
    std::uint64_t end;
    bool done = false;
  };

  std::uint64_t offset_;
  std::uint64_t first_ = 0;  // the number of events_.front()
  std::size_t open_ = 0;
  std::deque<Begun> events_;
};

}  // namespace gpux::daemon
