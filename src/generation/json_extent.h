#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpux::generation {

/// Finds the end of a JSON object or array in a text that arrives in pieces, without reading a character twice. The
/// text is broken at the first character with which it cannot become JSON; a number or a word that is none breaks it
/// where it ends.
class JsonExtent {
 public:
  enum class State { open, complete, broken };

  /// Reads on. `text` is the whole text so far, which begins with '{' or '['.
  State read(std::string_view text);

  /// Bytes that were read; of the whole value, once it is complete.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Bytes that the beginning of some JSON value has: without a number, a word or an escape that goes on.
  [[nodiscard]] std::size_t certain() const noexcept { return certain_; }

 private:
  enum class Next { value, value_or_end, key, key_or_end, colon, separator, word, string, escape, unicode };

  bool take(char c);
  bool take_in_string(char c);
  bool take_escape(char c);
  bool take_hex(char c);
  bool begin_value(char c);
  bool close(char c);

  std::string open_;  // the brackets that close what is open
  std::size_t size_ = 0, certain_ = 0;
  State state_ = State::open;
  Next next_ = Next::value;
  bool is_key_ = false;     // the string that is read
  std::string word_;        // a number, true, false or null so far
  std::uint32_t code_ = 0;  // of an escape
  int digits_ = 0;          // of it that were read
  bool has_high_ = false;   // the first half of a pair of escapes was read
};

/// Whether the text is one JSON value. Numbers may be of any size: those of a model may be beyond float64. Does not
/// recurse.
[[nodiscard]] bool is_json(std::string_view text);

}  // namespace gpux::generation
