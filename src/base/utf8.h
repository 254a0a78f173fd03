#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpux {

/// Bytes of the well-formed UTF-8 character that `text` begins with, 0 where it begins with none (overlong forms,
/// surrogates and code points above U+10FFFF are not well-formed).
[[nodiscard]] std::size_t utf8_character(std::string_view text) noexcept;

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Index of the first byte that is not part of a well-formed character; empty where all of the text is UTF-8.
[[nodiscard]] std::optional<std::size_t> find_non_utf8(std::string_view text) noexcept;

/// Says in which other encoding the text is, or where it stops being UTF-8: "UTF-16 (little-endian) by its byte order
/// mark; accepted: UTF-8", "not UTF-8 at byte offset 17 (0xe9); accepted: UTF-8". Empty where the text is UTF-8.
/// `offset` is where `text` begins in its file or message; only what begins at 0 can have a byte order mark.
[[nodiscard]] std::string utf8_problem(std::string_view text, std::uint64_t offset = 0);

/// Throws Error invalid_input with utf8_problem() if the text is not UTF-8.
void require_utf8(std::string_view text);

/// For the bytes of a text file: utf8_problem(), or the position of the first NUL character. NULs are well-formed
/// UTF-8, but indicate UTF-16 or UTF-32 without a byte order mark, or binary data: "a NUL character at byte offset 1,
/// as in UTF-16 (little-endian) without a byte order mark; accepted: UTF-8".
[[nodiscard]] std::string file_text_problem(std::string_view text, std::uint64_t offset = 0);

/// Checks UTF-8 that arrives byte by byte.
class Utf8Scan {
 public:
  /// False where the byte cannot follow the ones before.
  [[nodiscard]] bool take(unsigned char byte) noexcept {
    if (missing_ == 0 && byte < 0x80) {
      size_ = 0;
      return true;
    }
    return take_long(byte);
  }

  /// The bytes of a character that has begun and is not whole, or that take() refused; empty otherwise.
  [[nodiscard]] std::string_view open() const noexcept { return {bytes_.data(), size_}; }

 private:
  bool take_long(unsigned char byte) noexcept;

  std::array<char, 4> bytes_{};
  std::size_t size_ = 0;
  unsigned missing_ = 0;                          // continuation bytes
  unsigned char lowest_ = 0x80, highest_ = 0xbf;  // of the next one
};

/// The code point of a character that utf8_character() found.
[[nodiscard]] char32_t utf8_code_point(std::string_view character) noexcept;

/// The text as a terminal can show it, whoever wrote it: what a terminal obeys instead of showing it, and bytes that
/// are not UTF-8, become "\x1b" and "\u009b". These are the control characters of C0 and C1, DEL, and those that turn
/// the direction of text. Line breaks ('\n') and tabs stay.
[[nodiscard]] std::string shown_on_terminal(std::string_view text);

/// shown_on_terminal() on one line: line breaks and tabs become spaces.
[[nodiscard]] std::string one_line(std::string_view text);

/// Appends a code point that is no surrogate and at most U+10FFFF.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace gpux
