#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpux {

/// Lists and objects may stand this deep in each other.
constexpr std::size_t json_depth_limit = 64;

/// A place in a JSON text.
struct JsonCursor {
  const char* at = nullptr;
  const char* end = nullptr;

  explicit JsonCursor(std::string_view text) : at(text.data()), end(text.data() + text.size()) {}

  [[nodiscard]] bool done() const noexcept { return at == end; }

  /// The character here; 0, which JSON has nowhere, at the end.
  [[nodiscard]] char peek() const noexcept { return at == end ? '\0' : *at; }

  [[nodiscard]] std::string_view rest() const noexcept { return {at, static_cast<std::size_t>(end - at)}; }

  void skip_blanks() noexcept {
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) ++at;
  }

  /// Steps over `character` if it stands here.
  bool take(char character) noexcept {
    if (peek() != character) return false;
    ++at;
    return true;
  }
};

[[nodiscard]] inline bool is_json_digit(char character) noexcept {
  return character >= '0' && character <= '9';
}

/// Whether a number or bare word ends before this character.
[[nodiscard]] inline bool ends_json_word(char character) noexcept {
  switch (character) {
    case ' ':
    case '\n':
    case '\r':
    case '\t':
    case ',':
    case ':':
    case '[':
    case ']':
    case '{':
    case '}':
    case '"':
    case '\0':
      return true;
    default:
      return false;
  }
}

/// Whether `word` is a number as JSON writes it, as a whole.
[[nodiscard]] bool is_json_number(std::string_view word) noexcept;

/// The number, word, string or bracket that `text` begins with, for a message: one_line() of at most its first 40
/// bytes, "the end of the text" where there is nothing.
[[nodiscard]] std::string json_excerpt(std::string_view text);

/// Reads the string whose opening quote is at the cursor into `out`. Returns what is wrong with it, or null; then the
/// cursor is after the closing quote.
[[nodiscard]] const char* read_json_string(JsonCursor& cursor, std::string& out);

}  // namespace gpux
