#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpux {

/// Bytes of the well-formed UTF-8 character that `text` begins with, 0 where it begins with none (overlong forms,
/// surrogates and code points above U+10FFFF are not well-formed).
[[nodiscard]] std::size_t utf8_character(std::string_view text) noexcept;

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// The code point of a character that utf8_character() found.
[[nodiscard]] char32_t utf8_code_point(std::string_view character) noexcept;

/// The text as one line that can be shown: line breaks and tabs become blanks, other control characters and bytes that
/// are not UTF-8 become "\x1b".
[[nodiscard]] std::string one_line(std::string_view text);

/// Appends a code point that is no surrogate and at most U+10FFFF.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace gpux
