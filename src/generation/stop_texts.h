#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::generation {

/// Finds several texts in one that comes in pieces. A byte costs a few comparisons for each of them, however long they
/// are (Knuth, Morris, Pratt).
class StopTexts {
 public:
  /// `texts` must not be empty strings.
  explicit StopTexts(std::vector<std::string> texts);

  struct Found {
    std::size_t text = 0;  ///< its place among the texts
    std::size_t end = 0;   ///< where it ends in the piece

    bool operator==(const Found&) const = default;
  };

  /// Appends the piece to the text. Of those that end in it, the one that begins first; the first of several.
  std::optional<Found> add(std::string_view piece);

  /// Bytes at the end of what was added that may be the beginning of one of them.
  [[nodiscard]] std::size_t held() const noexcept;

  [[nodiscard]] const std::string& operator[](std::size_t index) const { return stops_.at(index).text; }

  /// Comparisons of bytes so far.
  [[nodiscard]] std::uint64_t comparisons() const noexcept { return comparisons_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::uint32_t> borders;  // of each beginning: the longest shorter one that it ends with
    std::size_t matched = 0;             // bytes of it at the end of what was added
  };

  [[nodiscard]] std::size_t next_matched(const Stop& stop, std::size_t matched, char byte);

  std::vector<Stop> stops_;
  std::uint64_t comparisons_ = 0;
};

}  // namespace gpux::generation
